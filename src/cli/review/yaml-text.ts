/** YAML as kubectl reads it, so that a file means here what it means in a cluster. */
import { LineCounter, parseAllDocuments, type Document, type Tags } from 'yaml';

import type { JsonValue } from '../../json/json.ts';

export interface YamlDocument {
  readonly node: Document.Parsed;
  /** 1-based: where its content begins. */
  readonly line: number;
  readonly problems: readonly { readonly line: number; readonly message: string }[];
}

/**
 * The documents of a text, in their order; those without content too.
 *
 * kubectl reads YAML 1.1: `yes` is true and 0644 is 420. It leaves out some of its types, and so does this: times and what looks
 * like 60-based numbers stay text (sigs.k8s.io/yaml, goyaml.v2/resolve.go).
 */
export function parseYamlDocuments(text: string): {
  readonly documents: readonly YamlDocument[];
  /** The line of an offset. */
  readonly lineAt: (offset: number) => number;
} {
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
    lineAt,
    documents: documents.map((node) => ({
      node,
      line: lineAt(node.contents?.range[0] ?? node.range[0]),
      problems: node.errors.map(({ pos, message }) => ({ line: lineAt(pos[0]), message: told(message) })),
    })),
  };
}

/** In characters: the parser quotes what it does not understand, however long. */
const LONGEST_MESSAGE = 500;

function told(message: string): string {
  // The parser goes down one call a level.
  if (message.includes('call stack')) return 'it is nested too deeply';
  return message.length > LONGEST_MESSAGE ? `${message.slice(0, LONGEST_MESSAGE)}…` : message;
}

const FOREIGN_TAG = /:(timestamp|binary|omap|pairs|set)$/;

const kubernetesTags = (tags: Tags): Tags =>
  tags.filter((tag) => typeof tag === 'string' || !(FOREIGN_TAG.test(tag.tag) || tag.format === 'TIME'));

/**
 * What a YAML value is in JSON. An integer beyond 2^53 stays exact as long as it is an int64, as in `parseJson`.
 *
 * @throws Error for what JSON has no word for
 */
export function jsonOfYaml(value: unknown): JsonValue {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return value;
    case 'number':
      if (!Number.isFinite(value)) throw new Error(`${String(value)} is no number in JSON`);
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
      throw new Error(`JSON has no such ${typeof value}`);
  }
}
