/** Checks that fragments of manifests in the docs use only fields of Gatehouse's kinds. */
import { parseAllDocuments } from 'yaml';

import { customResourceDefinitions } from '../../src/api/crds.ts';

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly enum?: readonly unknown[];
}

interface Definition {
  readonly spec: {
    readonly names: { readonly kind: string };
    readonly versions: readonly { readonly schema: { readonly openAPIV3Schema: Schema } }[];
  };
}

const KINDS = customResourceDefinitions().map(({ manifest }) => {
  const { spec } = JSON.parse(JSON.stringify(manifest)) as Definition; // customResourceDefinitions generated it
  return { kind: spec.names.kind, schema: spec.versions[0]?.schema.openAPIV3Schema ?? {} };
});

/** Every place of every kind at which a fragment can begin: the root, its spec, and every field below the spec. */
const PLACES = KINDS.flatMap(({ kind, schema }) => placesIn(kind, schema));

function placesIn(
  path: string,
  schema: Schema,
): readonly { readonly path: string; readonly schema: Schema }[] {
  const inner = schema.items ?? schema;
  return [
    { path, schema: inner },
    ...Object.entries(inner.properties ?? {})
      .filter(([name]) => name !== 'metadata' && name !== 'status')
      .flatMap(([name, field]) => placesIn(`${path}.${name}`, field)),
  ];
}

/**
 * The problem of a fragment; undefined if it has none, or if it belongs to no kind of Gatehouse. The fragment belongs
 * to the place that knows most of its fields: at least two, or all. One match is too weak, because fields such as
 * `name` are common.
 * @throws Error if the text is not YAML
 */
export function fragmentProblem(text: string): string | undefined {
  const documents = parseAllDocuments(text);
  for (const { errors } of documents) if (errors[0] !== undefined) throw errors[0];
  for (const document of documents) {
    const problem = problemOf(document.toJS());
    if (problem !== undefined) return problem;
  }
  return undefined;
}

const ENVELOPE = new Set(['apiVersion', 'kind', 'metadata', 'spec', 'status']);

function problemOf(value: unknown): string | undefined {
  const fields = keysOf(value);
  const named = KINDS.find(({ kind }) => kind === fieldOf(value, 'kind'));
  if (named === undefined && fields.includes('kind')) return undefined;
  if (named === undefined && fields.length > 0 && fields.every((field) => ENVELOPE.has(field)))
    return problemOf(fieldOf(value, 'spec'));
  const places = named === undefined ? PLACES : [{ path: named.kind, schema: named.schema }];
  const judged = places
    .map(({ path, schema }) => ({
      known: fields.filter((field) => Object.hasOwn(schema.properties ?? {}, field)).length,
      problems: unknownFields(path, schema, value),
    }))
    .filter(({ known }) => known > 1 || known === fields.length)
    .toSorted((a, b) => a.problems.length - b.problems.length || b.known - a.known);
  return judged[0]?.problems[0];
}

const fieldOf = (value: unknown, name: string): unknown =>
  Object.entries(value ?? {}).find(([key]) => key === name)?.[1];

const keysOf = (value: unknown): readonly string[] =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? Object.keys(value) : [];

function unknownFields(path: string, schema: Schema, value: unknown): readonly string[] {
  if (Array.isArray(value)) {
    const { items } = schema;
    return items === undefined
      ? []
      : value.flatMap((item, index) => unknownFields(`${path}[${index}]`, items, item));
  }
  const { properties } = schema;
  if (properties === undefined || typeof value !== 'object' || value === null) {
    return schema.enum?.includes(value) === false
      ? [`${path}: ${JSON.stringify(value)} is no such value`]
      : [];
  }
  return Object.entries(value).flatMap(([name, inner]) => {
    const field = Object.hasOwn(properties, name) ? properties[name] : undefined;
    return field === undefined
      ? [`${path} has no field ${name}`]
      : unknownFields(`${path}.${name}`, field, inner);
  });
}
