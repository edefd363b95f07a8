/**
 * Answers a ConversionReview, from text to text. Works object by object, so that the event loop can serve other work in
 * between.
 */
import { isJsonObject, parseJson, type JsonObject } from '../../json/json.ts';
import { toJsonText } from '../../json/json-text.ts';
import { InvalidReview } from '../review/request.ts';
import { quote, shorten } from '../../json/printable.ts';
import {
  ConversionFailure,
  type Converter,
  type ConversionSubject,
  type ConverterLookup,
} from './converter.ts';
import { fieldIn } from './edit.ts';
import { keepIdentity } from './identity.ts';
import { versionOf } from './policy-converter.ts';
import { parseQuestion, writeAnswer, type ConversionQuestion, type ConversionResult } from './review.ts';
import { splitReview, type Breathe, type Span } from './review-text.ts';

export interface ConversionDeps {
  readonly lookUp: (subject: ConversionSubject) => ConverterLookup;
  readonly breathe: Breathe;
}

export type AnsweredReview =
  | {
      readonly kind: 'answered';
      /** The ConversionReview of the response: JSON, to be sent in this order. */
      readonly texts: readonly string[];
      readonly report: ConversionReport;
    }
  /** This replica cannot answer yet. The API server retries. */
  | { readonly kind: 'unready'; readonly message: string };

/** For metrics and the log. */
export interface ConversionReport {
  readonly uid: string;
  /** The converter; undefined if the kind has none. */
  readonly converter: Converter | undefined;
  readonly to: string;
  readonly objects: number;
  /** The message for the user; undefined if all objects were converted. */
  readonly failure: string | undefined;
  /** The internal error, for the log only. */
  readonly cause: unknown;
}

/**
 * @param definition the name of the CustomResourceDefinition, if the request path contains it
 * @param signal aborts when the API server no longer waits, or when the response is due
 * @throws InvalidReview if the text is not a ConversionReview that can be answered
 */
export async function answerReview(
  text: string,
  definition: string | undefined,
  { lookUp, breathe }: ConversionDeps,
  signal: AbortSignal,
): Promise<AnsweredReview> {
  const { question, spans } = await readReview(text, breathe);
  const first = spans[0] === undefined ? undefined : objectAt(text, spans[0], 0);
  if (first === undefined) return answered(question, 0, undefined, { kind: 'converted', objects: [] });

  const subject = { group: question.group, kind: textIn(first, 'kind'), definition };
  const found = lookUp(subject);
  if (found.kind === 'unready') return found;
  if (found.kind === 'none') {
    return answered(question, spans.length, undefined, { kind: 'failed', message: found.message });
  }
  const result = await convertAll(
    text,
    spans,
    { question, kind: subject.kind, converter: found.converter },
    breathe,
    signal,
  );
  return answered(question, spans.length, found.converter, result);
}

type Outcome = ConversionResult & { readonly cause?: unknown };

function answered(
  question: ConversionQuestion,
  objects: number,
  converter: Converter | undefined,
  result: Outcome,
): AnsweredReview {
  const failure = result.kind === 'failed' ? result.message : undefined;
  const { uid, desiredVersion: to } = question;
  const report = { uid, converter, to, objects, failure, cause: result.cause };
  return { kind: 'answered', texts: writeAnswer(question, result), report };
}

async function readReview(
  text: string,
  breathe: Breathe,
): Promise<{ readonly question: ConversionQuestion; readonly spans: readonly Span[] }> {
  try {
    const { envelope, objects } = await splitReview(text, breathe);
    return { question: parseQuestion(parseJson(envelope)), spans: objects };
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw new InvalidReview(`the body is not JSON: ${error.message}`);
  }
}

function objectAt(text: string, { start, end }: Span, index: number): JsonObject {
  let value: unknown;
  try {
    value = parseJson(text.slice(start, end));
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw new InvalidReview(`the body is not JSON: request.objects[${index}]: ${error.message}`);
  }
  if (!isJsonObject(value)) throw new InvalidReview(`request.objects[${index}]: not an object`);
  return value;
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
      if (signal.aborted) throw tooLate(index, spans.length);
      const converted = await convertOne(object, task, signal);
      objects.push(converted === object ? text.slice(span.start, span.end) : toJsonText(converted));
    } catch (error) {
      return failed(object, task, error);
    }
  }
  return { kind: 'converted', objects };
}

function tooLate(index: number, count: number): ConversionFailure {
  return new ConversionFailure(
    `the time to answer was over after ${index} of ${count} objects: ask for fewer at a time (limit), or give Gatehouse more CPU`,
  );
}

async function convertOne(object: JsonObject, task: Task, signal: AbortSignal): Promise<JsonObject> {
  const { question, kind, converter } = task;
  const apiVersion = `${question.group}/${question.desiredVersion}`;
  if (textIn(object, 'kind') !== kind) {
    throw new ConversionFailure(`it is of another kind than the first object of the request, ${quote(kind)}`);
  }
  if (!textIn(object, 'apiVersion').startsWith(`${question.group}/`)) {
    throw new ConversionFailure(
      `it is not of the API group ${quote(question.group)}: a conversion stays in its group`,
    );
  }
  if (textIn(object, 'apiVersion') === apiVersion) return object;
  for (const version of [versionOf(object), question.desiredVersion]) {
    if (converter.versions?.includes(version) === false) {
      throw new ConversionFailure(`${converter.name} does not know version ${quote(version)}: add it there`);
    }
  }
  const converted = converter.convert(object, question.desiredVersion, signal);
  return keepIdentity(
    object,
    converted instanceof Promise ? await orAborted(converted, signal) : converted,
    apiVersion,
  );
}

/** Bounds a converter that never ends: the API server must not wait for it. */
async function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const abort = () => {
    reject(new ConversionFailure('the converter did not answer in time'));
  };
  signal.addEventListener('abort', abort, { once: true });
  if (signal.aborted) abort();
  try {
    return await Promise.race([work, promise]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

/** Users see the text of a ConversionFailure only: internal errors would not help them, and may contain internals. */
function failed(object: JsonObject, { question, converter }: Task, error: unknown): Outcome {
  const known = error instanceof ConversionFailure;
  const why = known ? error.message : 'internal error; the log of Gatehouse says more';
  const message =
    `${describe(object)} cannot be converted from ${versionOf(object)} to ${question.desiredVersion}: ` +
    `${converter.name}: ${why}`;
  return { kind: 'failed', message: shorten(message, LONGEST_MESSAGE), ...(known ? {} : { cause: error }) };
}

/** The length limit of a message for users. */
const LONGEST_MESSAGE = 1024;

/** e.g. `Server "store/db"` */
function describe(object: JsonObject): string {
  const metadata = fieldIn(object, 'metadata');
  const name = fieldIn(metadata, 'name') ?? fieldIn(metadata, 'generateName') ?? '';
  const namespace = fieldIn(metadata, 'namespace');
  const path = [namespace, name].filter((part) => typeof part === 'string').join('/');
  return `${shorten(textIn(object, 'kind'), 63)} ${quote(path)}`;
}

function textIn(object: JsonObject, field: string): string {
  const value = fieldIn(object, field);
  return typeof value === 'string' ? value : '';
}
