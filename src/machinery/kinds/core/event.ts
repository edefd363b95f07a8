import type { ApiObject } from '../../api-object.ts';
import { text, number, section, value, withFields } from '../../fields.ts';
import type { ResourceType, PrinterColumn } from '../../resource-type.ts';
import { builtInKind, column, type BuiltInKind } from '../built-in-kind.ts';
import { INT32, object, OBJECT_REFERENCE, STRING, TIME, withDefault } from '../schema-builders.ts';
import { ageOf } from '../../human-duration.ts';

/** The columns in both groups (printEvent of pkg/printers). */
const COLUMNS: readonly PrinterColumn[] = [
  eventColumn('Last Seen', 'When it last happened.', lastSeen),
  eventColumn('Type', 'Normal or Warning.', (event) => text(event, 'type')),
  eventColumn('Reason', 'Why, in one word.', (event) => text(event, 'reason')),
  eventColumn('Object', 'What it happened to.', shownObject),
  eventColumn('Message', 'For people.', (event) => text(event, 'message').trim()),
];

function eventColumn(...[name, description, read]: Parameters<typeof column>): PrinterColumn {
  return column(name, description, (event, now) => read(eventAs(event, 'v1'), now));
}

const firstTime = (event: ApiObject) => text(event, 'firstTimestamp') || text(event, 'eventTime');

function lastSeen(event: ApiObject, now: Date): string {
  const series = section(event, 'series');
  const last = text(series, 'lastObservedTime') || text(event, 'lastTimestamp') || firstTime(event);
  const repeats = text(series, 'lastObservedTime') !== '' || countOf(event) > 1;
  const shown = ageOf(last, now);
  return repeats ? `${shown} (x${countOf(event)} over ${ageOf(firstTime(event), now)})` : shown;
}

/** An event without a series and a count has happened once. */
function countOf(event: ApiObject): number {
  return number(section(event, 'series'), 'count') ?? Math.max(number(event, 'count') ?? 1, 1);
}

function shownObject(event: ApiObject): string {
  const about = section(event, 'involvedObject');
  return `${text(about, 'kind').toLowerCase()}/${text(about, 'name')}`;
}

// One kind in two groups with different field names, stored in one place.

const COMMON = {
  resource: 'events',
  kind: 'Event',
  namespaced: true,
  shortNames: ['ev'],
  description: 'Something that happened to an object. Events are gone after an hour in a cluster.',
} as const satisfies Partial<BuiltInKind>;

const EVENT_SOURCE = object({ component: STRING, host: STRING });

const SERIES = object({ count: INT32, lastObservedTime: TIME });

export const CORE_EVENT: ResourceType = builtInKind({
  ...COMMON,
  apiVersion: 'v1',
  fields: {
    involvedObject: withDefault(OBJECT_REFERENCE, {}),
    reason: STRING,
    message: STRING,
    source: withDefault(EVENT_SOURCE, {}),
    firstTimestamp: TIME,
    lastTimestamp: TIME,
    count: INT32,
    type: STRING,
    eventTime: TIME,
    series: SERIES,
    action: STRING,
    related: OBJECT_REFERENCE,
    reportingComponent: withDefault(STRING, ''),
    reportingInstance: withDefault(STRING, ''),
  },
  columns: COLUMNS,
  selectableFields: {
    ...referenceFields('involvedObject'),
    reason: (event) => text(event, 'reason'),
    reportingComponent: (event) => text(event, 'reportingComponent'),
    source: sourceOf,
    type: (event) => text(event, 'type'),
  },
});

export const EVENT: ResourceType = builtInKind({
  ...COMMON,
  apiVersion: 'events.k8s.io/v1',
  fields: {
    eventTime: TIME,
    series: SERIES,
    reportingController: STRING,
    reportingInstance: STRING,
    action: STRING,
    reason: STRING,
    regarding: withDefault(OBJECT_REFERENCE, {}),
    related: OBJECT_REFERENCE,
    note: STRING,
    type: STRING,
    deprecatedSource: withDefault(EVENT_SOURCE, {}),
    deprecatedFirstTimestamp: TIME,
    deprecatedLastTimestamp: TIME,
    deprecatedCount: INT32,
  },
  columns: COLUMNS,
  selectableFields: {
    ...referenceFields('regarding'),
    reason: (event) => text(event, 'reason'),
    reportingController: (event) => text(event, 'reportingController'),
    type: (event) => text(event, 'type'),
  },
});

function referenceFields(name: string): ResourceType['selectableFields'] {
  const fields = ['kind', 'namespace', 'name', 'uid', 'apiVersion', 'resourceVersion', 'fieldPath'];
  return Object.fromEntries(
    fields.map((field) => [`${name}.${field}`, (event: ApiObject) => text(section(event, name), field)]),
  );
}

function sourceOf(event: ApiObject): string {
  return text(section(event, 'source'), 'component') || text(event, 'reportingComponent');
}

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

/** The event in this apiVersion, `v1` or `events.k8s.io/v1`; the same object if it already has that version. */
export function eventAs(event: ApiObject, apiVersion: string): ApiObject {
  if (event.apiVersion === apiVersion) return event;
  const [from, to] = apiVersion === 'v1' ? ([1, 0] as const) : ([0, 1] as const);
  return {
    ...withFields(event, {
      ...Object.fromEntries(SPELLINGS.map((names) => [names[from], undefined])),
      ...Object.fromEntries(SPELLINGS.map((names) => [names[to], value(event, names[from])])),
    }),
    apiVersion,
  };
}
