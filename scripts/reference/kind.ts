/** Renders the reference page of a kind of Gatehouse from its CustomResourceDefinition. */
import { cell, code, table, type File } from './page.ts';

export interface Schema {
  readonly type?: string;
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly additionalProperties?: Schema;
  readonly enum?: readonly string[];
  readonly default?: unknown;
  readonly format?: string;
  readonly pattern?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly minProperties?: number;
  readonly maxProperties?: number;
}

export interface Definition {
  readonly spec: {
    readonly group: string;
    readonly scope: string;
    readonly names: {
      readonly kind: string;
      readonly plural: string;
      readonly shortNames: readonly string[];
    };
    readonly versions: readonly {
      readonly name: string;
      readonly additionalPrinterColumns: readonly { readonly name: string; readonly jsonPath: string }[];
      readonly schema: { readonly openAPIV3Schema: Schema };
    }[];
  };
}

export function kindPage({ spec: { group, scope, names, versions } }: Definition): File {
  const { name = '', schema, additionalPrinterColumns = [] } = versions[0] ?? {};
  const { description = '', properties = {}, required = [] } = schema?.openAPIV3Schema ?? {};
  const sections = Object.entries(properties)
    .filter(([field]) => field === 'spec' || field === 'status')
    .map(([field, inner]) =>
      [`## ${field}`, inner.description ?? '', fieldTable(field, inner, required.includes(field))].join(
        '\n\n',
      ),
    );
  const short = names.shortNames.map((one) => `\`${one}\``).join(', ');
  return {
    file: `${names.kind.toLowerCase()}.md`,
    title: names.kind,
    text: [
      description,
      `\`apiVersion: ${group}/${name}\`, \`kind: ${names.kind}\`; ${scope === 'Cluster' ? 'cluster-scoped' : 'namespaced'}; in kubectl \`${names.plural}\` or ${short}. ` +
        `\`kubectl explain ${names.plural}.spec\` shows the same.`,
      ...sections,
      '## Columns of kubectl get',
      table(
        ['column', 'content'],
        additionalPrinterColumns.map((column) => [column.name, code(column.jsonPath)]),
      ),
    ].join('\n\n'),
  };
}

const fieldTable = (path: string, schema: Schema, isRequired: boolean): string =>
  table(
    ['field', 'type', 'default', 'description'],
    fields(path, schema, isRequired)
      .slice(1)
      .map(({ path: field, schema: of, required }) => [
        `${code(field)}${required ? ', required' : ''}`,
        [typeOf(of), ...limits(of)].join('; '),
        of.default === undefined ? '' : code(JSON.stringify(of.default)),
        cell(of.description ?? ''),
      ]),
  );

interface Field {
  readonly path: string;
  readonly schema: Schema;
  readonly required: boolean;
}

/** The field and all its subfields, in the order of the schema. */
function fields(path: string, schema: Schema, required: boolean): readonly Field[] {
  const inner = schema.items ?? schema;
  const below = schema.items === undefined ? path : `${path}[]`;
  return [
    { path, schema, required },
    ...Object.entries(inner.properties ?? {}).flatMap(([name, field]) =>
      fields(`${below}.${name}`, field, inner.required?.includes(name) ?? false),
    ),
  ];
}

function typeOf({ type, format, enum: values, items, additionalProperties }: Schema): string {
  if (values !== undefined) return values.map(code).join(', ');
  if (items !== undefined) return `list of ${typeOf(items)}`;
  if (additionalProperties !== undefined) return `map of ${typeOf(additionalProperties)}`;
  if (format === 'date-time') return 'time (RFC 3339)';
  return type ?? 'any value';
}

function limits(schema: Schema): readonly string[] {
  const { items } = schema;
  return [
    ...between('', schema.minimum, schema.maximum),
    ...between(' characters', schema.minLength, schema.maxLength),
    ...between(' entries', schema.minItems, schema.maxItems),
    ...between(' fields', schema.minProperties, schema.maxProperties),
    ...(schema.pattern === undefined ? [] : [`matches ${code(schema.pattern)}`]),
    ...(items === undefined || items.properties !== undefined
      ? []
      : limits(items).map((limit) => `each ${limit}`)),
  ];
}

function between(unit: string, least: number | undefined, most: number | undefined): readonly string[] {
  if (least === undefined && most === undefined) return [];
  if (most === undefined) return [`at least ${least}${unit}`];
  if (least === undefined || least === most) return [`${least === most ? '' : 'at most '}${most}${unit}`];
  return [`${least} to ${most}${unit}`];
}
