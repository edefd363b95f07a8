import { readFileSync } from 'node:fs';
import { isJsonObject, ownValue, parseJson, stringifyJson, type JsonObject } from '../../../json/json.ts';
import { ofJson, type ApiObject } from '../../machinery/api-object.ts';
import { keyOf, type Place, type StoredEvent } from '../../machinery/storage/stored.ts';
import type { StorageContent } from '../../machinery/storage/storage.ts';

/**
 * Two files of JSON lines. The snapshot has a header line with format and revision, then one line per object. The log
 * has one line per later write. After a crash between the two, the log may repeat writes that the snapshot contains.
 */
const FORMAT = 'gatehouse-sandbox/1';

interface StoredObject {
  readonly place: Place;
  readonly object: ApiObject;
}

export const idOf = (place: Place, object: ApiObject) =>
  `${place.group}/${place.resource}/${keyOf(object.metadata)}`;

export function* snapshotLines(
  revision: number,
  objects: ReadonlyMap<string, StoredObject>,
): Iterable<string> {
  yield `${stringifyJson({ format: FORMAT, revision, objects: objects.size })}\n`;
  for (const { place, object } of objects.values()) yield `${stringifyJson({ ...placeOf(place), object })}\n`;
}

export function logLine(place: Place, { type, revision, object }: StoredEvent): string {
  const { apiVersion, kind, metadata } = object;
  const { namespace, name } = metadata;
  // A deletion needs only the key.
  const shown = type === 'DELETED' ? { apiVersion, kind, metadata: { namespace, name } } : object;
  return `${stringifyJson({ revision, type, ...placeOf(place), object: shown })}\n`;
}

const placeOf = ({ group, resource }: Place) => ({ group, resource });

/**
 * The content of both files; undefined if they do not exist.
 * @throws Error with file and line if a file is damaged. The last line of the log may be torn: the process ended
 *   during the write, and no client was told that it succeeded.
 */
export function readFiles(snapshot: string, log: string): StorageContent | undefined {
  const whole = readLines(snapshot, { torn: 'refused' });
  const entries = readLines(log, { torn: 'ignored' }) ?? [];
  const [header, ...lines] = whole ?? [];
  const start = { file: snapshot, number: 1 };
  if (whole === undefined && entries.length === 0) return undefined;
  if (whole === undefined) throw damaged(start, 'the file is missing, and the log is no use without it');
  if (header === undefined) throw damaged(start, 'the file is empty');

  const objects = new Map<string, StoredObject>();
  for (const line of lines) {
    const stored = at(line, objectOf);
    objects.set(idOf(stored.place, stored.object), stored);
  }
  let revision = at(header, (value) => revisionOf(value, lines.length));
  for (const line of entries) {
    const entry = at(line, entryOf);
    if (entry.revision <= revision) continue;
    if (entry.revision !== revision + 1) {
      throw damaged(line, `revision ${entry.revision} follows ${revision}: writes in between are missing`);
    }
    revision = entry.revision;
    const id = idOf(entry.place, entry.object);
    if (entry.type === 'DELETED') objects.delete(id);
    else objects.set(id, entry);
  }
  return { revision, objects: [...objects.values()] };
}

interface Line {
  readonly file: string;
  readonly number: number;
  readonly value: JsonObject;
}

/** Undefined if the file does not exist. */
function readLines(
  file: string,
  { torn }: { readonly torn: 'ignored' | 'refused' },
): readonly Line[] | undefined {
  const texts = readIfThere(file)?.split('\n');
  if (texts === undefined) return undefined;
  const unfinished = texts.pop() ?? '';
  const lines = texts.map((text, index) => ({
    file,
    number: index + 1,
    value: parseLine(file, index + 1, text),
  }));
  if (unfinished === '') return lines;
  if (torn === 'refused') throw damaged({ file, number: texts.length + 1 }, 'the line is torn');
  return lines;
}

function readIfThere(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
}

function parseLine(file: string, number: number, text: string): JsonObject {
  try {
    const value = parseJson(text);
    if (isJsonObject(value)) return value;
  } catch (cause) {
    throw damaged({ file, number }, 'it is not JSON', cause);
  }
  throw damaged({ file, number }, 'it is not a JSON object');
}

/** Parses a line; errors name the file and line. */
function at<Value>(line: Line, read: (value: JsonObject) => Value): Value {
  try {
    return read(line.value);
  } catch (cause) {
    throw damaged(line, cause instanceof Error ? cause.message : String(cause), cause);
  }
}

const damaged = ({ file, number }: Pick<Line, 'file' | 'number'>, why: string, cause?: unknown) =>
  new Error(
    `${file}:${number} cannot be read: ${why}. Restore the file from a copy, or delete the folder to begin with an empty sandbox.`,
    { cause },
  );

function revisionOf(header: JsonObject, objects: number): number {
  const format = ownValue(header, 'format');
  const revision = ownValue(header, 'revision');
  if (format !== FORMAT) throw new Error(`the header does not name the format ${FORMAT}`);
  if (!isRevision(revision)) throw new Error('revision is not a number');
  if (ownValue(header, 'objects') !== objects)
    throw new Error(`the number of objects is ${objects}, which differs from the header`);
  return revision;
}

function objectOf(line: JsonObject): StoredObject {
  const group = ownValue(line, 'group');
  const resource = ownValue(line, 'resource');
  if (typeof group !== 'string' || typeof resource !== 'string')
    throw new Error('group or resource is missing');
  return { place: { group, resource }, object: ofJson(line.object ?? null) };
}

function entryOf(line: JsonObject): StoredObject & Pick<StoredEvent, 'type' | 'revision'> {
  const type = ownValue(line, 'type');
  const revision = ownValue(line, 'revision');
  if (type !== 'ADDED' && type !== 'MODIFIED' && type !== 'DELETED') throw new Error('type is unknown');
  if (!isRevision(revision)) throw new Error('revision is not a number');
  return { ...objectOf(line), type, revision };
}

const isRevision = (value: unknown): value is number => Number.isSafeInteger(value);
