/** What a test expects of an object. */
import { compilePattern } from '../../../cel/regular-expression.ts';
import type { JsonObject } from '../../../json/json.ts';
import { readMap, readObject, readText, readTexts, readWord, type Cursor } from './cursor.ts';

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
