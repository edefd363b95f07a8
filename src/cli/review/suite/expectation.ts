/** What a test expects of an object. */
import { compilePattern } from '../../../cel/regular-expression.ts';
import {
  type JsonObject,
  isEqual,
  isJsonArray,
  isJsonObject,
  ownValue,
  stringifyJson,
  type JsonValue,
} from '../../../json/json.ts';
import { readMap, readObject, readText, readTexts, readWord, type Cursor } from './yaml-field.ts';
import type { Outcome, Verdict } from '../review-result.ts';

export type ExpectedDecision = (typeof DECISIONS)[number];

const DECISIONS = ['allow', 'warn', 'deny', 'unchecked'] as const;

export interface Expectation {
  readonly decision: ExpectedDecision;
  /** A part of the message of the denial. */
  readonly message?: string;
  readonly messageMatches?: { readonly text: string; readonly test: (message: string) => boolean };
  /** Those of the causes, all of them, in any order. */
  readonly fields?: readonly string[];
  /** A part of each warning, in any order; empty: there is none. */
  readonly warnings?: readonly string[];
  /** What the object is to have after it was changed; null: nothing there. */
  readonly object?: JsonObject;
  /** A part of each; null: there is none. */
  readonly auditAnnotations?: Readonly<Record<string, string | null>>;
}

const EXPECT_KEYS = [
  'decision',
  'message',
  'messageMatches',
  'fields',
  'warnings',
  'object',
  'auditAnnotations',
];

/** What is wrong with it is reported; undefined when it is of no use. */
export function readExpectation(cursor: Cursor): Expectation | undefined {
  if (readMap(cursor, EXPECT_KEYS) === undefined) {
    if (cursor.value === undefined) cursor.report('a test needs expect: what is to become of the object');
    return undefined;
  }
  const decision = readWord(cursor.at('decision'), DECISIONS);
  if (cursor.at('decision').value === undefined)
    cursor.report(`write decision: one of ${DECISIONS.join(', ')}`);
  const message = readText(cursor.at('message'));
  const messageMatches = patternOf(cursor.at('messageMatches'));
  const fields = readTexts(cursor.at('fields'));
  const warnings = readTexts(cursor.at('warnings'));
  const object = readObject(cursor.at('object'));
  const auditAnnotations = annotationsOf(cursor.at('auditAnnotations'));
  if (decision === undefined) return undefined;
  const ofDenials = { message, messageMatches, fields };
  for (const [key, value] of Object.entries(ofDenials)) {
    if (value !== undefined && decision !== 'deny')
      cursor.at(key).report('only what is denied has it: expect deny');
  }
  if (object !== undefined && decision === 'deny')
    cursor.at('object').report('what is denied is not changed');
  return {
    decision,
    ...(message === undefined ? {} : { message }),
    ...(messageMatches === undefined ? {} : { messageMatches }),
    ...(fields === undefined ? {} : { fields }),
    ...(warnings === undefined ? {} : { warnings }),
    ...(object === undefined ? {} : { object }),
    ...(auditAnnotations === undefined ? {} : { auditAnnotations }),
  };
}

function patternOf(cursor: Cursor): Expectation['messageMatches'] {
  const text = readText(cursor);
  if (text === undefined) return undefined;
  try {
    const pattern = compilePattern(text);
    return { text, test: (message) => pattern.test(message) };
  } catch (error) {
    cursor.report(error instanceof Error ? error.message : String(error));
    return undefined;
  }
}

function annotationsOf(cursor: Cursor): Expectation['auditAnnotations'] {
  const given = readObject(cursor);
  if (given === undefined) return undefined;
  const annotations: (readonly [string, string | null])[] = [];
  for (const [key, value] of Object.entries(given)) {
    if (typeof value === 'string' || value === null) annotations.push([key, value]);
    else cursor.at(key).report('write a text, or null where there is to be none');
  }
  return Object.fromEntries(annotations);
}

/** An outcome, compared with what a test expects. */
/** One thing that is not as expected. */
export interface Mismatch {
  /** e.g. `decision`, `object.spec.tier`. */
  readonly what: string;
  readonly expected: string;
  readonly received: string;
}

const DECISION: Readonly<Record<Verdict, ExpectedDecision>> = {
  allowed: 'allow',
  warned: 'warn',
  denied: 'deny',
  unchecked: 'unchecked',
};

export function checkExpectation(expect: Expectation, outcome: Outcome): readonly Mismatch[] {
  const decision = DECISION[outcome.verdict];
  if (decision !== expect.decision) {
    return [{ what: 'decision', expected: expect.decision, received: describeDecision(decision, outcome) }];
  }
  const message = outcome.messages.join('; ');
  return [
    ...(expect.message === undefined || message.includes(expect.message)
      ? []
      : [{ what: 'message', expected: `… ${expect.message} …`, received: message }]),
    ...(expect.messageMatches === undefined || expect.messageMatches.test(message)
      ? []
      : [{ what: 'messageMatches', expected: expect.messageMatches.text, received: message }]),
    ...(expect.fields === undefined ? [] : fieldMismatches(expect.fields, outcome)),
    ...(expect.warnings === undefined ? [] : warningMismatches(expect.warnings, outcome)),
    ...(expect.object === undefined ? [] : valueMismatches(expect.object, outcome.object, 'object')),
    ...annotationMismatches(expect.auditAnnotations ?? {}, outcome),
  ];
}

/** Why it is so, which is what one wants to know next. */
function describeDecision(decision: ExpectedDecision, { messages, warnings }: Outcome): string {
  switch (decision) {
    case 'deny':
      return `deny: ${messages.join('; ')}`;
    case 'warn':
      return `warn: ${warnings.join('; ')}`;
    case 'unchecked':
      return 'unchecked: no policy and no handler is asked about this write';
    case 'allow':
      return 'allow';
  }
}

function fieldMismatches(expected: readonly string[], { causes }: Outcome): readonly Mismatch[] {
  const wanted = [...new Set(expected)].sort();
  const received = [...new Set(causes.map(({ field }) => field))].sort();
  return isEqual(wanted, received)
    ? []
    : [{ what: 'fields', expected: shown(wanted), received: shown(received) }];
}

/** Each text belongs to a warning of its own. */
function warningMismatches(expected: readonly string[], { warnings }: Outcome): readonly Mismatch[] {
  const left = [...warnings];
  const isThere = expected.map((text) => {
    const index = left.findIndex((warning) => warning.includes(text));
    return index !== -1 && left.splice(index, 1).length === 1;
  });
  return isThere.every(Boolean) && left.length === 0
    ? []
    : [{ what: 'warnings', expected: shown(expected), received: shown(warnings) }];
}

function annotationMismatches(
  expected: NonNullable<Expectation['auditAnnotations']>,
  { auditAnnotations }: Outcome,
): readonly Mismatch[] {
  return Object.entries(expected).flatMap(([key, text]) => {
    const received = ownValue(auditAnnotations, key) as string | undefined; // annotations are texts
    const holds = text === null ? received === undefined : received?.includes(text) === true;
    const what = `auditAnnotations.${key}`;
    return holds
      ? []
      : [{ what, expected: text === null ? 'none' : `… ${text} …`, received: received ?? 'none' }];
  });
}

/** What is expected of maps is a part; lists and all else are expected as they are. Null expects nothing there. */
function valueMismatches(expected: JsonValue, received: unknown, path: string): readonly Mismatch[] {
  if (expected === null) {
    return (received ?? null) === null
      ? []
      : [{ what: path, expected: 'nothing', received: shown(received) }];
  }
  if (isJsonObject(expected) && isJsonObject(received)) {
    return Object.entries(expected).flatMap(([key, value]) =>
      valueMismatches(value, ownValue(received, key), `${path}.${key}`),
    );
  }
  if (isJsonArray(expected) && isJsonArray(received) && expected.length === received.length) {
    return expected.flatMap((value, index) => valueMismatches(value, received[index], `${path}[${index}]`));
  }
  return isEqual(expected, received)
    ? []
    : [{ what: path, expected: shown(expected), received: shown(received) }];
}

function shown(value: unknown): string {
  return value === undefined ? 'nothing' : stringifyJson(value);
}
