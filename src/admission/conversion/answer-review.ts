/** Answers a ConversionReview, object by object, so that the event loop can serve other work in between. */
import {
  isJsonObject,
  parseJson,
  textIn,
  isJsonArray,
  ownValue,
  isEqual,
  valueIn,
  type JsonObject,
  type JsonValue,
} from '../../json/json.ts';
import { toJsonText } from '../../json/json-text.ts';
import { objectKey, splitApiVersion } from '../../json/kube-object.ts';
import { quote, shorten } from '../../json/printable.ts';
import { InvalidReview, openReview, reviewType, findUid } from '../review/envelope.ts';
import { orAborted } from '../../json/abort.ts';
import {
  ConversionFailure,
  versionOf,
  type Converter,
  type ConversionSubject,
  type ConverterLookup,
} from './converter.ts';
import { splitReview, type Breathe, type Span } from './review-text.ts';
import { isLabelValue, isQualifiedName } from '../../json/names.ts';
import { withField } from './edit.ts';

export type AnsweredReview =
  | {
      readonly kind: 'answered';
      /** The ConversionReview of the response: JSON, to be sent in this order. */
      readonly texts: readonly string[];
      readonly report: {
        readonly uid: string;
        readonly converter: Converter | undefined;
        readonly to: string;
        readonly objects: number;
        /** The message for the user; undefined if all objects were converted. */
        readonly failure: string | undefined;
        /** The internal error, for the log only. */
        readonly cause: unknown;
      };
    }
  /** This replica cannot answer yet. The API server retries. */
  | { readonly kind: 'unready'; readonly message: string };

type Outcome = ConversionResult & { readonly cause?: unknown };

interface ReviewText {
  readonly text: string;
  /** The size limit in bytes, if the review exceeds it and the text is only its start. */
  readonly limit?: number | undefined;
}

/**
 * Users control the objects, so a review that is too large or malformed gets an answer, too.
 * @throws InvalidReview if the text is not a ConversionReview: then the API server has not sent it
 */
export async function answerReview(
  review: ReviewText,
  definition: string | undefined,
  lookUp: (subject: ConversionSubject) => ConverterLookup,
  breathe: Breathe,
  signal: AbortSignal,
): Promise<AnsweredReview> {
  const { text, limit } = review;
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
    `the review is larger than ${Math.floor(limit / 1024 ** 2)} MiB: ask for fewer objects at a time (limit), or raise --conversion-body-limit`,
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
  switch (found.kind) {
    case 'unready':
      return found;
    case 'none':
      return answered(undefined, { kind: 'failed', message: found.message });
    case 'found': {
      const { converter } = found;
      return answered(
        converter,
        await convertAll(text, objects, { question, kind, converter }, breathe, signal),
      );
    }
  }
}

async function readReview(text: string, breathe: Breathe) {
  try {
    const { envelope, objects } = await splitReview(text, breathe);
    return { question: parseQuestion(parseJson(envelope)), objects };
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw new InvalidReview(`the body is not JSON: ${error.message}`);
  }
}

function objectAt(text: string, { start, end }: Span, index: number): JsonObject {
  const where = `request.objects[${index}]`;
  try {
    const value = parseJson(text.slice(start, end));
    if (isJsonObject(value)) return value;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw new InvalidReview(`the body is not JSON: ${where}: ${error.message}`);
  }
  throw new InvalidReview(`${where}: not an object`);
}

interface Task {
  readonly question: ConversionQuestion;
  /** The kind of the first object, which all objects share. */
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
          `the time to answer was over after ${index} of ${spans.length} objects: ask for fewer at a time (limit), or give Gatehouse more CPU`,
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
    throw new ConversionFailure(`it is of another kind than the first object of the request, ${quote(kind)}`);
  if (!current.startsWith(`${group}/`))
    throw new ConversionFailure(
      `it is not of the API group ${quote(group)}: a conversion stays in its group`,
    );
  if (current === apiVersion) return object;
  const unknown = [versionOf(object), version].find((one) => converter.versions?.includes(one) === false);
  if (unknown !== undefined)
    throw new ConversionFailure(`${converter.name} does not know version ${quote(unknown)}: add it there`);
  const converting = converter.convert(object, version, signal);
  const late = () => new ConversionFailure('the converter did not answer in time');
  const converted = converting instanceof Promise ? await orAborted(converting, signal, late) : converting;
  return keepIdentity(object, converted, apiVersion);
}

const LONGEST_MESSAGE = 1024;

/** Users see the text of a ConversionFailure only: internal errors would not help them, and may contain internals. */
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
  /** The requested version, e.g. `infra.example.com` and `v1`. */
  readonly group: string;
  readonly version: string;
}

type ConversionResult =
  /** The objects as JSON text: same number, same order, all in the desired version. */
  | { readonly kind: 'converted'; readonly objects: readonly string[] }
  | { readonly kind: 'failed'; readonly message: string };

/** @throws InvalidReview if the body is not a ConversionReview that can be answered */
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
      ? 'the converter dropped metadata: it may change labels and annotations, and must keep the rest'
      : `metadata is ${quote(metadata)} and not an object`,
  );
}

function changed(what: string, before: JsonObject, after: JsonObject, field = what): ConversionFailure {
  const [was, is] = [valueIn(before, field), valueIn(after, field)];
  return new ConversionFailure(
    `the converter changed ${what} from ${quote(was)} to ${quote(is)}: it must keep it`,
  );
}

/** Labels or annotations. The API server accepts null for an empty map. */
function marksOf(map: (typeof MARKS)[number], before: JsonObject, after: JsonObject): JsonObject | undefined {
  const marks = valueIn(after, map) ?? undefined;
  if (marks === undefined) return undefined;
  if (!isJsonObject(marks))
    throw new ConversionFailure(
      `the converter made ${quote(marks)} of metadata.${map}: it must be a map of texts`,
    );
  const old = valueIn(before, map);
  if (marks === old) return marks;
  for (const [key, value] of Object.entries(marks)) {
    if (!isEqual(value, valueIn(old, key))) checkMark(map, key, value);
  }
  return marks;
}

function checkMark(map: (typeof MARKS)[number], key: string, value: JsonValue): void {
  const where = `metadata.${map}[${quote(key)}]`;
  if (!isQualifiedName(key)) throw new ConversionFailure(`${where}: the API server does not take this key`);
  if (typeof value !== 'string') throw new ConversionFailure(`${where} must be a text, not ${quote(value)}`);
  if (map === 'labels' && !isLabelValue(value))
    throw new ConversionFailure(`${where}: ${quote(value)} is no value that a label can have`);
}
