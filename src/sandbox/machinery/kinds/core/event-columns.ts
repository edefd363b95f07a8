import type { ApiObject } from '../../api-object.ts';
import { text, number, section } from '../../fields.ts';
import type { PrinterColumn } from '../../resource-type.ts';
import { ageOf } from '../../human-duration.ts';

/**
 * The columns of a v1 Event. Its name is the last column, because the message matters more.
 * @see pkg/printers/internalversion/printers.go, printEvent
 */
export const EVENT_COLUMNS: readonly PrinterColumn[] = [
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
