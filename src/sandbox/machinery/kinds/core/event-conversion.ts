import type { JsonValue } from '../../../../json/json.ts';
import type { ApiObject } from '../../api-object.ts';
import { value, withFields } from '../../fields.ts';

/** What a field is called in v1, and in events.k8s.io/v1. Those with one name are not here. */
const SPELLINGS = [
  ['involvedObject', 'regarding'],
  ['message', 'note'],
  ['source', 'deprecatedSource'],
  ['firstTimestamp', 'deprecatedFirstTimestamp'],
  ['lastTimestamp', 'deprecatedLastTimestamp'],
  ['count', 'deprecatedCount'],
  ['reportingComponent', 'reportingController'],
] as const;

/** The event as v1 spells it. One that is in v1 already stays as it is. */
export function fromEventsGroup(event: ApiObject): ApiObject {
  if (event.apiVersion === 'v1') return event;
  return { ...withFields(event, renamed(event, 1, 0)), apiVersion: 'v1' };
}

/** The event as events.k8s.io/v1 spells it. */
function toEventsGroup(event: ApiObject): ApiObject {
  if (event.apiVersion !== 'v1') return event;
  return { ...withFields(event, renamed(event, 0, 1)), apiVersion: 'events.k8s.io/v1' };
}

/** The event in the spelling of this apiVersion, `v1` or `events.k8s.io/v1`; the same object when it is in it. */
export const eventAs = (event: ApiObject, apiVersion: string): ApiObject =>
  apiVersion === 'v1' ? fromEventsGroup(event) : toEventsGroup(event);

function renamed(event: ApiObject, from: 0 | 1, to: 0 | 1): Record<string, JsonValue | undefined> {
  return Object.fromEntries([
    ...SPELLINGS.map((names) => [names[from], undefined] as const),
    ...SPELLINGS.map((names) => [names[to], value(event, names[from])] as const),
  ]);
}
