import { type JsonValue, ownValue } from '../../json/json.ts';
import { splitApiVersion } from '../../json/kube-object.ts';
import type { ApiObject } from '../api-object.ts';
import { withFields } from '../fields.ts';
import { plainStrategy, type PrinterColumn, type ResourceType, type Strategy } from '../resource-type.ts';
import { object } from './schema-builders.ts';
import type { Schema } from '../schema/schema.ts';

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
  readonly apiVersion: string;
  /** Absent for cluster-scoped kinds. */
  readonly namespaced?: true;
  readonly fields: Readonly<Record<string, Schema>>;
  readonly description: string;
  readonly hasStatus?: true;
  readonly strategy?: Partial<Strategy>;
}

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
  type: PrinterColumn['type'] = 'string',
): PrinterColumn => ({ name, type, description, value });

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
  'date',
);

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

/** Lists that Go writes as null if they are absent. */
export const withNulls =
  (...names: readonly string[]) =>
  (object: ApiObject): ApiObject => {
    const absent = names.filter((name) => ownValue(object, name) === undefined);
    return absent.length === 0
      ? object
      : withFields(object, Object.fromEntries(absent.map((name) => [name, null])));
  };
