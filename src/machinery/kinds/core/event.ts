import type { JsonObject } from '../../../json/json.ts';
import type { ApiObject } from '../../api-object.ts';
import { text, has, number, section, value } from '../../fields.ts';
import type { Cause } from '../../failure.ts';
import type { ResourceType, PrinterColumn } from '../../resource-type.ts';
import { invalidValue, requiredValue, unsupportedValue } from '../../schema/causes.ts';
import { builtInKind, type BuiltInKind } from '../built-in-kind.ts';
import { fromEventsGroup } from './event-conversion.ts';
import { INT32, object, OBJECT_REFERENCE, STRING, TIME, withDefault } from '../schema-builders.ts';
import { ageOf } from '../../human-duration.ts';

/**
 * The columns of a v1 Event. Its name is the last column, because the message matters more.
 * @see pkg/printers/internalversion/printers.go, printEvent
 */
const EVENT_COLUMNS: readonly PrinterColumn[] = [
  { name: 'Last Seen', type: 'string', description: 'When it last happened.', value: lastSeen },
  { name: 'Type', type: 'string', description: 'Normal or Warning.', value: (event) => text(event, 'type') },
  {
    name: 'Reason',
    type: 'string',
    description: 'Why, in one word.',
    value: (event) => text(event, 'reason'),
  },
  { name: 'Object', type: 'string', description: 'What it happened to.', value: shownObject },
  {
    name: 'Subobject',
    type: 'string',
    priority: 1,
    description: 'What part of the object.',
    value: (event) => text(section(event, 'involvedObject'), 'fieldPath'),
  },
  { name: 'Source', type: 'string', priority: 1, description: 'Who says so.', value: shownSource },
  {
    name: 'Message',
    type: 'string',
    description: 'For people.',
    value: (event) => text(event, 'message').trim(),
  },
  {
    name: 'First Seen',
    type: 'string',
    priority: 1,
    description: 'When it first happened.',
    value: (event, now) => ageOf(firstTime(event), now),
  },
  {
    name: 'Count',
    type: 'string',
    priority: 1,
    description: 'How often it happened.',
    value: countOf,
  },
  {
    name: 'Name',
    type: 'string',
    format: 'name',
    priority: 1,
    description: 'The name of the event itself.',
    value: (event) => event.metadata.name ?? '',
  },
];

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

function shownSource(event: ApiObject): string {
  const source = section(event, 'source');
  const component = text(source, 'component') || text(event, 'reportingComponent');
  const host = text(source, 'host') || text(event, 'reportingInstance');
  return host === '' ? component : `${component}, ${host}`;
}

// One kind in two groups with different field names, stored in one place: see event-conversion.ts.

const COMMON = {
  resource: 'events',
  kind: 'Event',
  namespaced: true,
  shortNames: ['ev'],
  description: 'Something that happened to an object. Events are gone after an hour in a cluster.',
} as const satisfies Partial<BuiltInKind>;

const EVENT_SOURCE = object({ component: STRING, host: STRING });

const SERIES = object({ count: INT32, lastObservedTime: TIME });

/** v1 Event. */
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
  columns: EVENT_COLUMNS,
  selectableFields: {
    ...referenceFields('involvedObject'),
    reason: (event) => text(event, 'reason'),
    reportingComponent: (event) => text(event, 'reportingComponent'),
    source: sourceOf,
    type: (event) => text(event, 'type'),
  },
  strategy: { validate: coreEventProblems },
});

/** events.k8s.io/v1 Event. */
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
  columns: EVENT_COLUMNS.map((column) =>
    typeof column.value === 'string' ? column : { ...column, value: asCore(column.value) },
  ),
  selectableFields: {
    ...referenceFields('regarding'),
    reason: (event) => text(event, 'reason'),
    reportingController: (event) => text(event, 'reportingController'),
    type: (event) => text(event, 'type'),
  },
  strategy: { validate: eventProblems },
});

/** Runs a function that reads core Events on an Event of events.k8s.io. */
function asCore<T>(read: (event: ApiObject, now: Date) => T): (event: ApiObject, now: Date) => T {
  return (event, now) => read(fromEventsGroup(event), now);
}

function referenceFields(name: string): ResourceType['selectableFields'] {
  const fields = ['kind', 'namespace', 'name', 'uid', 'apiVersion', 'resourceVersion', 'fieldPath'];
  return Object.fromEntries(
    fields.map((field) => [`${name}.${field}`, (event: ApiObject) => text(section(event, name), field)]),
  );
}

function sourceOf(event: ApiObject): string {
  return text(section(event, 'source'), 'component') || text(event, 'reportingComponent');
}

/** Follows legacyValidateEvent of pkg/apis/core/validation/events.go. */
function coreEventProblems(event: ApiObject): readonly Cause[] {
  return [
    ...namespaceProblems(event, section(event, 'involvedObject')),
    ...(has(event, 'eventTime') ? reporterProblems(event, 'reportingComponent', 'message') : []),
  ];
}

/**
 * An event is in the namespace of the object that it involves; events about cluster-scoped objects are in `default`.
 */
function namespaceProblems({ metadata }: ApiObject, about: JsonObject): readonly Cause[] {
  const { namespace = '' } = metadata;
  const theirs = text(about, 'namespace');
  if (theirs === namespace || (theirs === '' && namespace === 'default')) return [];
  return [invalidValue('involvedObject.namespace', theirs, 'does not match event.namespace')];
}

const QUALIFIED = /^([a-z0-9]([-a-z0-9.]*[a-z0-9])?\/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$/;

const LONGEST_WORD = 128;

const LONGEST_NOTE = 1024;

function reporterProblems(event: ApiObject, controllerField: string, noteField: string): readonly Cause[] {
  const controller = text(event, controllerField);
  const words = ['reportingInstance', 'action', 'reason'];
  return [
    ...(controller === '' ? [requiredValue(controllerField)] : []),
    ...(controller !== '' && !QUALIFIED.test(controller)
      ? [invalidValue(controllerField, controller, 'name part must be a qualified name')]
      : []),
    ...words.flatMap((name) => {
      const word = text(event, name);
      if (word === '') return [requiredValue(name)];
      if (word.length <= LONGEST_WORD) return [];
      return [invalidValue(name, '', `can have at most ${LONGEST_WORD} characters`)];
    }),
    ...(text(event, noteField).length > LONGEST_NOTE
      ? [invalidValue(noteField, '', `can have at most ${LONGEST_NOTE} characters`)]
      : []),
  ];
}

const TYPES = ['Normal', 'Warning'];

const DEPRECATED = ['deprecatedFirstTimestamp', 'deprecatedLastTimestamp', 'deprecatedCount'];

/** Follows ValidateEventCreate of the same file. Fields that exist only in core/v1 must be empty. */
function eventProblems(event: ApiObject): readonly Cause[] {
  const core = fromEventsGroup(event);
  const type = text(event, 'type');
  const count = number(section(event, 'series'), 'count') ?? 0;
  const deprecated = [
    ...(Object.keys(section(event, 'deprecatedSource')).length > 0 ? ['deprecatedSource'] : []),
    ...DEPRECATED.filter((name) => has(event, name)),
  ];
  return [
    ...namespaceProblems(core, section(core, 'involvedObject')),
    ...(has(event, 'eventTime') ? [] : [requiredValue('eventTime')]),
    ...(TYPES.includes(type) ? [] : [unsupportedValue('type', type, TYPES)]),
    ...deprecated.map((name) => invalidValue(name, value(event, name) ?? null, 'needs to be unset')),
    ...reporterProblems(event, 'reportingController', 'note'),
    ...(has(event, 'series') && count < 2
      ? [invalidValue('series.count', count, 'should be at least 2')]
      : []),
  ];
}
