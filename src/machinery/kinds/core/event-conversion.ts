import type { JsonValue } from '../../../json/json.ts';
import type { ApiObject } from '../../api-object.ts';
import { value, withFields } from '../../fields.ts';

/** Field names in v1 and in events.k8s.io/v1. Fields with the same name in both are not listed. */
const SPELLINGS = [
  ['involvedObject', 'regarding'],
  ['message', 'note'],
  ['source', 'deprecatedSource'],
  ['firstTimestamp', 'deprecatedFirstTimestamp'],
  ['lastTimestamp', 'deprecatedLastTimestamp'],
  ['count', 'deprecatedCount'],
  ['reportingComponent', 'reportingController'],
] as const;

/** Converts the event to v1; a v1 event is returned unchanged. */
export function fromEventsGroup(event: ApiObject): ApiObject {
  if (event.apiVersion === 'v1') return event;
  return { ...withFields(event, renamed(event, 1, 0)), apiVersion: 'v1' };
}

/** Converts the event to events.k8s.io/v1. */
function toEventsGroup(event: ApiObject): ApiObject {
  if (event.apiVersion !== 'v1') return event;
  return { ...withFields(event, renamed(event, 0, 1)), apiVersion: 'events.k8s.io/v1' };
}

/** The event in this apiVersion, `v1` or `events.k8s.io/v1`; the same object if it already has that version. */
export const eventAs = (event: ApiObject, apiVersion: string): ApiObject =>
  apiVersion === 'v1' ? fromEventsGroup(event) : toEventsGroup(event);

function renamed(event: ApiObject, from: 0 | 1, to: 0 | 1): Record<string, JsonValue | undefined> {
  return Object.fromEntries([
    ...SPELLINGS.map((names) => [names[from], undefined] as const),
    ...SPELLINGS.map((names) => [names[to], value(event, names[from])] as const),
  ]);
}
