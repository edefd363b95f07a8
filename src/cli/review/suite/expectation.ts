/** The expected result of a test, and its comparison with the actual result. */
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
import { readMap, readObject, readText, readTexts, readWord, type YamlField } from './yaml-field.ts';
import type { ReviewResult, Verdict } from '../review-result.ts';

export type ExpectedDecision = (typeof DECISIONS)[number];

const DECISIONS = ['allow', 'warn', 'deny', 'unchecked'] as const;

export interface Expectation {
  readonly decision: ExpectedDecision;
  /** A part of the message of a denial. */
  readonly message?: string;
  readonly messageMatches?: { readonly text: string; readonly test: (message: string) => boolean };
  /** The fields of all causes, in any order. */
  readonly fields?: readonly string[];
  /** A part of each warning, in any order; empty: no warnings. */
  readonly warnings?: readonly string[];
  /** A part of the object after mutation; null: the field is absent. */
  readonly object?: JsonObject;
  /** A part of each annotation; null: the annotation is absent. */
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

/** Reports problems; undefined if the expectation cannot be used. */
export function readExpectation(field: YamlField): Expectation | undefined {
  if (readMap(field, EXPECT_KEYS) === undefined) {
    if (field.value === undefined) field.report('a test needs expect: the expected result');
    return undefined;
  }
  const decision = readWord(field.at('decision'), DECISIONS);
  if (field.at('decision').value === undefined)
    field.report(`decision is required: one of ${DECISIONS.join(', ')}`);
  const message = readText(field.at('message'));
  const messageMatches = patternOf(field.at('messageMatches'));
  const fields = readTexts(field.at('fields'));
  const warnings = readTexts(field.at('warnings'));
  const object = readObject(field.at('object'));
  const auditAnnotations = annotationsOf(field.at('auditAnnotations'));
  if (decision === undefined) return undefined;
  const ofDenials = { message, messageMatches, fields };
  for (const [key, value] of Object.entries(ofDenials)) {
    if (value !== undefined && decision !== 'deny') field.at(key).report('allowed only with decision: deny');
  }
  if (object !== undefined && decision === 'deny')
    field.at('object').report('not allowed with decision: deny');
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

function patternOf(field: YamlField): Expectation['messageMatches'] {
  const text = readText(field);
  if (text === undefined) return undefined;
  try {
    const pattern = compilePattern(text);
    return { text, test: (message) => pattern.test(message) };
  } catch (error) {
    field.report(error instanceof Error ? error.message : String(error));
    return undefined;
  }
}

function annotationsOf(field: YamlField): Expectation['auditAnnotations'] {
  const given = readObject(field);
  if (given === undefined) return undefined;
  const annotations: (readonly [string, string | null])[] = [];
  for (const [key, value] of Object.entries(given)) {
    if (typeof value === 'string' || value === null) annotations.push([key, value]);
    else field.at(key).report('must be a string, or null if the annotation must be absent');
  }
  return Object.fromEntries(annotations);
}

/** A difference between the expected and the actual result. */
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

export function checkExpectation(expect: Expectation, result: ReviewResult): readonly Mismatch[] {
  const decision = DECISION[result.verdict];
  if (decision !== expect.decision) {
    return [{ what: 'decision', expected: expect.decision, received: describeDecision(decision, result) }];
  }
  const message = result.messages.join('; ');
  return [
    ...(expect.message === undefined || message.includes(expect.message)
      ? []
      : [{ what: 'message', expected: `… ${expect.message} …`, received: message }]),
    ...(expect.messageMatches === undefined || expect.messageMatches.test(message)
      ? []
      : [{ what: 'messageMatches', expected: expect.messageMatches.text, received: message }]),
    ...(expect.fields === undefined ? [] : fieldMismatches(expect.fields, result)),
    ...(expect.warnings === undefined ? [] : warningMismatches(expect.warnings, result)),
    ...(expect.object === undefined ? [] : valueMismatches(expect.object, result.object, 'object')),
    ...annotationMismatches(expect.auditAnnotations ?? {}, result),
  ];
}

/** The decision with its reason. */
function describeDecision(decision: ExpectedDecision, { messages, warnings }: ReviewResult): string {
  switch (decision) {
    case 'deny':
      return `deny: ${messages.join('; ')}`;
    case 'warn':
      return `warn: ${warnings.join('; ')}`;
    case 'unchecked':
      return 'unchecked: no policy and no handler applies to this write';
    case 'allow':
      return 'allow';
  }
}

function fieldMismatches(expected: readonly string[], { causes }: ReviewResult): readonly Mismatch[] {
  const wanted = [...new Set(expected)].sort();
  const received = [...new Set(causes.map(({ field }) => field))].sort();
  return isEqual(wanted, received)
    ? []
    : [{ what: 'fields', expected: shown(wanted), received: shown(received) }];
}

/** Each expected text must match a different warning. */
function warningMismatches(expected: readonly string[], { warnings }: ReviewResult): readonly Mismatch[] {
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
  { auditAnnotations }: ReviewResult,
): readonly Mismatch[] {
  return Object.entries(expected).flatMap(([key, text]) => {
    const received = ownValue(auditAnnotations, key) as string | undefined; // annotations are strings
    const holds = text === null ? received === undefined : received?.includes(text) === true;
    const what = `auditAnnotations.${key}`;
    return holds
      ? []
      : [{ what, expected: text === null ? 'none' : `… ${text} …`, received: received ?? 'none' }];
  });
}

/** Maps are compared partially, lists by length and index, other values exactly. Null expects an absent field. */
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
