import type { JsonValue } from '../../json/json.ts';
import { splitApiVersion } from '../../json/kube-object.ts';
import type { ApiObject } from '../api-object.ts';
import { plainStrategy, type PrinterColumn, type ResourceType, type Strategy } from '../resource-type.ts';
import { object } from './schema-builders.ts';
import type { Schema } from '../schema/schema.ts';

/** The declaration of a built-in kind; `builtInKind` derives the rest. */
export interface BuiltInKind
  extends
    Pick<ResourceType, 'kind' | 'resource'>,
    Partial<
      Pick<
        ResourceType,
        | 'answer'
        | 'categories'
        | 'columns'
        | 'deprecationWarning'
        | 'scale'
        | 'selectableFields'
        | 'shortNames'
        | 'verbs'
      >
    > {
  /** `v1`, `apps/v1`. */
  readonly apiVersion: string;
  /** Absent for cluster-scoped kinds. */
  readonly namespaced?: true;
  /** All top-level fields except metadata. */
  readonly fields: Readonly<Record<string, Schema>>;
  readonly description: string;
  readonly hasStatus?: true;
  readonly strategy?: Partial<Strategy>;
}

/** In the order of the discovery documents. */
export const ALL_VERBS: ResourceType['verbs'] = [
  'create',
  'delete',
  'deletecollection',
  'get',
  'list',
  'patch',
  'update',
  'watch',
];

type Cell = (object: ApiObject, now: Date) => JsonValue;

export const column = (
  name: string,
  description: string,
  value: Cell,
  more: Partial<Pick<PrinterColumn, 'type' | 'format' | 'priority'>> = {},
): PrinterColumn => ({ name, type: 'string', description, value, ...more });

export const wideColumn = (name: string, description: string, value: Cell): PrinterColumn =>
  column(name, description, value, { priority: 1 });

/** The creation time; the table shows it as an age. */
export const AGE: PrinterColumn = {
  name: 'Age',
  type: 'date',
  description: 'How long ago the object was created.',
  value: '.metadata.creationTimestamp',
};

/** Kinds without other columns show the time itself; the others show an age. */
export const CREATED_AT = column(
  'Created At',
  'CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be ' +
    'set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 ' +
    'form and is in UTC.',
  ({ metadata }) => metadata.creationTimestamp ?? '',
  { type: 'date' },
);

export const countColumn = (
  name: string,
  description: string,
  listOf: (object: ApiObject) => readonly unknown[],
): PrinterColumn => column(name, description, (object) => listOf(object).length, { type: 'integer' });

export function builtInKind({
  apiVersion,
  fields,
  description,
  strategy,
  ...told
}: BuiltInKind): ResourceType {
  const { group, version } = splitApiVersion(apiVersion);
  return {
    singular: told.kind.toLowerCase(),
    listKind: `${told.kind}List`,
    shortNames: [],
    categories: [],
    namespaced: false,
    verbs: ALL_VERBS,
    columns: [AGE],
    hasStatus: false,
    selectableFields: {},
    ...told,
    group,
    version,
    storageVersion: version,
    custom: false,
    schema: { ...object(fields), description },
    strategy: { ...plainStrategy, ...strategy },
  };
}
