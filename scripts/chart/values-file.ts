/** The chart's values as values.yaml, as a JSON Schema for Helm, and as a page, from one definition. */
import type { TProperties, TSchema } from 'typebox';

import { cell, code, table } from '../reference/page.ts';
import { toYaml } from '../../src/cli/terminal/output.ts';

type Values = TSchema & { readonly properties: TProperties };

/** The TypeBox fields of a value that the documentation shows. */
interface Described {
  readonly description: string;
  readonly default?: unknown;
  readonly type?: string;
  readonly properties?: Readonly<Record<string, TSchema>>;
}

const WIDTH = 100;

export function renderValues(values: Values): string {
  return `# Generated from scripts/chart/values.ts by \`npm run generate\`. Do not edit: give Helm a file of your own with -f.\n${entries(values.properties, 0)}`;
}

function entries(properties: Readonly<Record<string, TSchema>>, indent: number): string {
  return Object.entries(properties)
    .map(([key, schema]) => {
      const { description, properties: below, default: value } = described(schema);
      const comment = wrapped(description, WIDTH - indent - 2).map((line) => `# ${line}`);
      const text = [
        ...comment,
        ...(below === undefined
          ? toYaml({ [key]: value }, { aliasDuplicateObjects: false })
              .trimEnd()
              .split('\n')
          : [`${key}:`]),
      ];
      const own = text.map((line) => `${' '.repeat(indent)}${line}\n`).join('');
      return `${indent === 0 ? '\n' : ''}${own}${below === undefined ? '' : entries(below, indent + 2)}`;
    })
    .join('');
}

function wrapped(text: string, width: number): readonly string[] {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const last = lines.at(-1);
    if (last === undefined || last.length + 1 + word.length > width) lines.push(word);
    else lines[lines.length - 1] = `${last} ${word}`;
  }
  return lines;
}

/** Renders values.schema.json in draft 7, which all versions of Helm 3 support. */
export function renderValuesSchema(values: Values): string {
  // Through JSON: drops the internal markers of TypeBox.
  const plain = JSON.parse(JSON.stringify(values)) as Record<string, unknown>;
  const properties = {
    ...(plain.properties as object), // the type of `values` is an object schema
    global: {
      type: 'object',
      description: 'Helm passes this to every chart that is a dependency of another chart.',
    },
    enabled: {
      type: 'boolean',
      description: 'For the condition of a chart that depends on this one.',
    },
  };
  const schema = {
    $schema: 'http://json-schema.org/draft-07/schema#',
    $comment: 'Generated from scripts/chart/values.ts by `npm run generate`. Do not edit.',
    ...plain,
    properties,
  };
  return `${JSON.stringify(withoutRequired(schema), undefined, 2)}\n`;
}

/** The user can remove a default with null, so no value is required. */
function withoutRequired(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(withoutRequired);
  return Object.fromEntries(
    Object.entries(value)
      .filter(([key, below]) => !(key === 'required' && Array.isArray(below)))
      .map(([key, below]) => [key, withoutRequired(below)]),
  );
}

export function renderValuesPage(values: Values): string {
  const rows = leaves(values.properties, '').map(({ path, schema }) => [
    code(path),
    defaultOf(schema),
    cell(described(schema).description),
  ]);
  return `<!-- Generated from scripts/chart/values.ts by \`npm run generate\`. Do not edit. -->

# Values of the Helm chart

[Installing](../installing.md#helm) describes how to use the chart. Helm rejects values that are not listed here.

${table(['value', 'default', 'description'], rows)}
`;
}

const leaves = (
  properties: Readonly<Record<string, TSchema>>,
  prefix: string,
): readonly { readonly path: string; readonly schema: TSchema }[] =>
  Object.entries(properties).flatMap(([key, schema]) => {
    const path = `${prefix}${key}`;
    const below = described(schema).properties;
    return below === undefined ? [{ path, schema }] : leaves(below, `${path}.`);
  });

/** Omits long defaults, which values.yaml shows. */
function defaultOf(schema: TSchema): string {
  const text = JSON.stringify(described(schema).default);
  return text.length > 60 ? 'see `values.yaml`' : code(text);
}

// chart/values.ts describes every value.
const described = (schema: TSchema): Described => schema as TSchema & Described;
