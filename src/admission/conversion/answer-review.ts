/** Answers a ConversionReview object by object, so that the event loop can do other work in between. */
import {
  isEqual,
  isJsonArray,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  ownValue,
  parseJson,
  textIn,
  valueIn,
} from '../../json/json.ts';
import { toJsonText } from '../../json/json-text.ts';
import { isLabelValue, isQualifiedName, objectKey, splitApiVersion } from '../../json/kube-object.ts';
import { quote, shorten } from '../../json/printable.ts';
import { findUid, InvalidReview, openReview, reviewType } from '../review/request.ts';
import { checkValues } from '../review/review.ts';
import { orAborted } from '../../json/abort.ts';
import {
  ConversionFailure,
  type ConversionSubject,
  type Converter,
  type ConverterLookup,
  versionOf,
} from './converter.ts';
import { type Breathe, type Span, splitReview } from './review-text.ts';
import { withField } from './edit.ts';

export type AnsweredReview =
  | {
      readonly kind: 'answered';
      /** The JSON of the response, in parts to send in this order. */
      readonly texts: readonly string[];
      readonly report: {
        readonly uid: string;
        readonly converter: Converter | undefined;
        readonly to: string;
        readonly objects: number;
        readonly failure: string | undefined;
        /** The internal error, for the log only. */
        readonly cause: unknown;
      };
    }
  | { readonly kind: 'unready'; readonly message: string };

type Outcome = ConversionResult & { readonly cause?: unknown };

/**
 * Users control the objects, so even a review that is too large or malformed gets an answer.
 * @param limit the size limit in bytes, if the review exceeds it and the text is only its start
 * @throws InvalidReview if the text is not a ConversionReview, so the API server has not sent it
 */
export async function answerReview(
  { text, limit }: { readonly text: string; readonly limit?: number | undefined },
  definition: string | undefined,
  lookUp: (subject: ConversionSubject) => ConverterLookup,
  breathe: Breathe,
  signal: AbortSignal,
): Promise<AnsweredReview> {
  try {
    if (limit !== undefined) throw tooLarge(limit);
    return await answerText(text, definition, lookUp, breathe, signal);
  } catch (error) {
    const uid = error instanceof InvalidReview ? findUid(text, 'ConversionReview') : undefined;
    if (!(error instanceof InvalidReview) || uid === undefined) throw error;
    const { message } = error;
    const report = { uid, converter: undefined, to: '', objects: 0, failure: message, cause: undefined };
    return { kind: 'answered', texts: writeAnswer(uid, { kind: 'failed', message }), report };
  }
}

const tooLarge = (limit: number) =>
  new InvalidReview(
    `the review is larger than ${Math.floor(limit / 1024 ** 2)} MiB; request fewer objects at a time (limit), or raise --conversion-body-limit and the memory of the pods`,
  );

async function answerText(
  text: string,
  definition: string | undefined,
  lookUp: (subject: ConversionSubject) => ConverterLookup,
  breathe: Breathe,
  signal: AbortSignal,
): Promise<AnsweredReview> {
  const { question, objects } = await readReview(text, breathe);
  const { uid, version: to, group } = question;
  const answered = (converter: Converter | undefined, result: Outcome): AnsweredReview => {
    const failure = result.kind === 'failed' ? result.message : undefined;
    const report = { uid, converter, to, objects: objects.length, failure, cause: result.cause };
    return { kind: 'answered', texts: writeAnswer(uid, result), report };
  };
  const [first] = objects;
  if (first === undefined) return answered(undefined, { kind: 'converted', objects: [] });
  const kind = textIn(objectAt(text, first, 0), 'kind');
  const found = lookUp({ group, kind, definition });
  if (found.kind === 'unready') return found;
  if (found.kind === 'none') return answered(undefined, { kind: 'failed', message: found.message });
  const task = { question, kind, converter: found.converter };
  return answered(found.converter, await convertAll(text, objects, task, breathe, signal));
}

async function readReview(text: string, breathe: Breathe) {
  try {
    const { envelope, objects } = await splitReview(text, breathe);
    checkValues(envelope);
    return { question: parseQuestion(parseJson(envelope)), objects };
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw new InvalidReview(`the body is not JSON: ${error.message}`);
  }
}

function objectAt(text: string, { start, end }: Span, index: number): JsonObject {
  const where = `request.objects[${index}]`;
  const part = text.slice(start, end);
  checkValues(part);
  try {
    const value = parseJson(part);
    if (isJsonObject(value)) return value;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw new InvalidReview(`the body is not JSON: ${where}: ${error.message}`);
  }
  throw new InvalidReview(`${where}: not an object`);
}

interface Task {
  readonly question: ConversionQuestion;
  readonly kind: string;
  readonly converter: Converter;
}

async function convertAll(
  text: string,
  spans: readonly Span[],
  task: Task,
  breathe: Breathe,
  signal: AbortSignal,
): Promise<Outcome> {
  const objects: string[] = [];
  for (const [index, span] of spans.entries()) {
    await breathe();
    const object = objectAt(text, span, index);
    try {
      if (signal.aborted)
        throw new ConversionFailure(
          `the timeout expired after ${index} of ${spans.length} objects; request fewer at a time (limit), or give Gatehouse more CPU`,
        );
      const converted = await convertOne(object, task, signal);
      objects.push(converted === object ? text.slice(span.start, span.end) : toJsonText(converted));
    } catch (error) {
      return failed(object, task, error);
    }
  }
  return { kind: 'converted', objects };
}

async function convertOne(
  object: JsonObject,
  { question: { group, version }, kind, converter }: Task,
  signal: AbortSignal,
): Promise<JsonObject> {
  const apiVersion = `${group}/${version}`;
  const current = textIn(object, 'apiVersion');
  if (textIn(object, 'kind') !== kind)
    throw new ConversionFailure(`its kind differs from the kind of the first object, ${quote(kind)}`);
  if (!current.startsWith(`${group}/`))
    throw new ConversionFailure(
      `its API group is not ${quote(group)}, and a conversion cannot change the group`,
    );
  if (current === apiVersion) return object;
  const unknown = [versionOf(object), version].find((one) => converter.versions?.includes(one) === false);
  if (unknown !== undefined)
    throw new ConversionFailure(`${converter.name} does not support version ${quote(unknown)}; add it there`);
  const converting = converter.convert(object, version, signal);
  const late = () => new ConversionFailure('the converter did not answer in time');
  const converted = converting instanceof Promise ? await orAborted(converting, signal, late) : converting;
  return keepIdentity(object, converted, apiVersion);
}

const LONGEST_MESSAGE = 1024;

/** Users see only the message of a ConversionFailure, because other errors may contain internals. */
function failed(object: JsonObject, { question, converter }: Task, error: unknown): Outcome {
  const known = error instanceof ConversionFailure;
  const why = known ? error.message : 'internal error; the log of Gatehouse says more';
  const message =
    `${describe(object)} cannot be converted from ${versionOf(object)} to ${question.version}: ` +
    `${converter.name}: ${why}`;
  return { kind: 'failed', message: shorten(message, LONGEST_MESSAGE), ...(known ? {} : { cause: error }) };
}

function describe(object: JsonObject): string {
  const name = textIn(object, 'metadata', 'name') || textIn(object, 'metadata', 'generateName');
  const key = objectKey({ namespace: textIn(object, 'metadata', 'namespace'), name });
  return `${shorten(textIn(object, 'kind'), 63)} ${quote(key)}`;
}

interface ConversionQuestion {
  readonly uid: string;
  readonly group: string;
  readonly version: string;
}

type ConversionResult =
  | { readonly kind: 'converted'; readonly objects: readonly string[] }
  | { readonly kind: 'failed'; readonly message: string };

function parseQuestion(value: unknown): ConversionQuestion {
  const { uid, request } = openReview(value, 'ConversionReview');
  const desired = ownValue(request, 'desiredAPIVersion');
  if (typeof desired !== 'string' || desired === '')
    throw new InvalidReview('request.desiredAPIVersion: absent or not a string');
  if (!isJsonArray(ownValue(request, 'objects')))
    throw new InvalidReview('request.objects: not a list of objects');
  return { uid, ...splitApiVersion(desired) };
}

function writeAnswer(uid: string, result: ConversionResult): readonly string[] {
  const objects = result.kind === 'converted' ? result.objects : [];
  const status =
    result.kind === 'converted' ? { status: 'Success' } : { status: 'Failed', message: result.message };
  return [
    `${JSON.stringify(reviewType('ConversionReview')).slice(0, -1)},"response":`,
    `{"uid":${JSON.stringify(uid)},"convertedObjects":[`,
    ...objects.flatMap((text, index) => (index === 0 ? [text] : [',', text])),
    `],"result":${JSON.stringify(status)}}}`,
  ];
}

const MARKS = ['labels', 'annotations'] as const;

/** The converted object with the identity of the original (restoreObjectMeta of apiextensions-apiserver). */
export function keepIdentity(original: JsonObject, converted: JsonObject, apiVersion: string): JsonObject {
  const kind = valueIn(converted, 'kind') ?? valueIn(original, 'kind');
  if (!isEqual(kind, valueIn(original, 'kind'))) throw changed('kind', original, converted);
  const before = metadataOf(original, {});
  // The API server never sends an object without metadata, and rejects a response without it.
  const after = metadataOf(converted, Object.hasOwn(original, 'metadata') ? undefined : {});
  for (const field of ['name', 'namespace', 'uid']) {
    if (!isEqual(valueIn(after, field) ?? '', valueIn(before, field) ?? ''))
      throw changed(`metadata.${field}`, before, after, field);
  }
  const metadata = MARKS.reduce((kept, map) => withField(kept, map, marksOf(map, before, after)), before);
  const typed = withField(withField(converted, 'apiVersion', apiVersion), 'kind', kind);
  return withField(typed, 'metadata', metadata);
}

function metadataOf(object: JsonObject, absent: JsonObject | undefined): JsonObject {
  const metadata = valueIn(object, 'metadata') ?? absent;
  if (isJsonObject(metadata)) return metadata;
  throw new ConversionFailure(
    metadata === undefined
      ? 'the converter dropped metadata; it may change only labels and annotations'
      : `metadata is ${quote(metadata)} and not an object`,
  );
}

function changed(what: string, before: JsonObject, after: JsonObject, field = what): ConversionFailure {
  const [was, is] = [valueIn(before, field), valueIn(after, field)];
  return new ConversionFailure(
    `the converter changed ${what} from ${quote(was)} to ${quote(is)}, which must not change`,
  );
}

/** Labels or annotations. The API server accepts null for an empty map. */
function marksOf(map: (typeof MARKS)[number], before: JsonObject, after: JsonObject): JsonObject | undefined {
  const marks = valueIn(after, map) ?? undefined;
  if (marks === undefined) return undefined;
  if (!isJsonObject(marks))
    throw new ConversionFailure(`metadata.${map} is ${quote(marks)} and must be a map of strings`);
  const old = valueIn(before, map);
  if (marks === old) return marks;
  for (const [key, value] of Object.entries(marks)) {
    if (!isEqual(value, valueIn(old, key))) checkMark(map, key, value);
  }
  return marks;
}

function checkMark(map: (typeof MARKS)[number], key: string, value: JsonValue): void {
  const where = `metadata.${map}[${quote(key)}]`;
  if (!isQualifiedName(key)) throw new ConversionFailure(`${where}: the API server does not accept this key`);
  if (typeof value !== 'string')
    throw new ConversionFailure(`${where} must be a string, not ${quote(value)}`);
  if (map === 'labels' && !isLabelValue(value))
    throw new ConversionFailure(`${where}: ${quote(value)} is not a valid label value`);
}
