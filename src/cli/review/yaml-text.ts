/** Parses YAML like kubectl, so that a file has the same meaning as in a cluster. */
import { LineCounter, parseAllDocuments, type Tags } from 'yaml';

import type { JsonValue } from '../../json/json.ts';

/**
 * The documents of a text in order, including empty ones.
 *
 * kubectl parses YAML 1.1: `yes` is true and 0644 is 420. Like kubectl, this parser omits some types: timestamps and
 * sexagesimal numbers stay strings (sigs.k8s.io/yaml, goyaml.v2/resolve.go).
 */
export function parseYamlDocuments(text: string) {
  const counter = new LineCounter();
  const lineAt = (offset: number): number => Math.max(1, counter.linePos(offset).line);
  const parsed = parseAllDocuments(text, {
    version: '1.1',
    customTags: kubernetesTags,
    intAsBigInt: true,
    prettyErrors: false,
    lineCounter: counter,
  });
  const documents = Array.isArray(parsed) ? parsed : [];
  return {
    /** The line of an offset. */
    lineAt,
    /** The line and the column of an offset. */
    spotAt: (offset: number) => {
      const { line, col } = counter.linePos(offset);
      return { line: Math.max(1, line), column: Math.max(1, col) };
    },
    documents: documents.map((node) => ({
      node,
      /** The 1-based first line of the content. */
      line: lineAt(node.contents?.range[0] ?? node.range[0]),
      problems: node.errors.map(({ pos, message }) => ({
        line: lineAt(pos[0]),
        message: shortened(message),
      })),
    })),
  };
}

/** In characters: error messages of the parser quote the input. */
const MAX_MESSAGE = 500;

function shortened(message: string): string {
  // The parser is recursive.
  if (message.includes('call stack')) return 'it is nested too deeply';
  return message.length > MAX_MESSAGE ? `${message.slice(0, MAX_MESSAGE)}…` : message;
}

const FOREIGN_TAG = /:(timestamp|binary|omap|pairs|set)$/;

const kubernetesTags = (tags: Tags): Tags =>
  tags.filter((tag) => typeof tag === 'string' || !(FOREIGN_TAG.test(tag.tag) || tag.format === 'TIME'));

/**
 * Converts a YAML value to JSON. An int64 beyond 2^53 stays exact, as in `parseJson`.
 *
 * @throws Error for values that JSON cannot represent
 */
export function jsonOfYaml(value: unknown): JsonValue {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return value;
    case 'number':
      if (!Number.isFinite(value)) throw new Error(`${String(value)} is not a JSON number`);
      return value;
    case 'bigint': {
      const number = Number(value);
      const isDouble = Number.isSafeInteger(number) || BigInt.asIntN(64, value) !== value;
      return isDouble ? jsonOfYaml(number) : value;
    }
    case 'undefined':
      return null;
    case 'object':
      if (value === null) return null;
      if (Array.isArray(value)) return value.map(jsonOfYaml);
      return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, jsonOfYaml(item)]));
    case 'function':
    case 'symbol':
      throw new Error(`JSON cannot represent a ${typeof value}`);
  }
}
