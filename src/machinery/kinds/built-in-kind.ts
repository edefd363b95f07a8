import { plainStrategy, type PrinterColumn, type ResourceType, type Strategy } from '../resource-type.ts';
import { object } from './schema-builders.ts';
import type { Schema } from '../schema/schema.ts';

/** The declaration of a built-in kind; `builtInKind` derives the rest. */
export interface BuiltInKind {
  /** `v1`, `apps/v1`. */
  readonly apiVersion: string;
  readonly kind: string;
  readonly resource: string;
  /** Absent for cluster-scoped kinds. */
  readonly namespaced?: true;
  readonly shortNames?: readonly string[];
  readonly categories?: readonly string[];
  /** All top-level fields except metadata. */
  readonly fields: Readonly<Record<string, Schema>>;
  readonly description: string;
  readonly columns?: readonly PrinterColumn[];
  readonly hasStatus?: true;
  readonly scale?: NonNullable<ResourceType['scale']>;
  readonly deprecationWarning?: string;
  readonly verbs?: ResourceType['verbs'];
  readonly selectableFields?: ResourceType['selectableFields'];
  readonly strategy?: Partial<Strategy>;
  readonly answer?: NonNullable<ResourceType['answer']>;
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

/** The creation time; the table shows it as an age. */
export const AGE: PrinterColumn = {
  name: 'Age',
  type: 'date',
  description: 'How long ago the object was created.',
  value: '.metadata.creationTimestamp',
};

export function builtInKind(told: BuiltInKind): ResourceType {
  const slash = told.apiVersion.indexOf('/');
  const version = told.apiVersion.slice(slash + 1);
  return {
    group: slash === -1 ? '' : told.apiVersion.slice(0, slash),
    version,
    resource: told.resource,
    singular: told.kind.toLowerCase(),
    kind: told.kind,
    listKind: `${told.kind}List`,
    shortNames: told.shortNames ?? [],
    categories: told.categories ?? [],
    namespaced: told.namespaced ?? false,
    verbs: told.verbs ?? ALL_VERBS,
    schema: { ...object(told.fields), description: told.description },
    custom: false,
    columns: told.columns ?? [AGE],
    hasStatus: told.hasStatus ?? false,
    storageVersion: version,
    selectableFields: told.selectableFields ?? {},
    strategy: { ...plainStrategy, ...told.strategy },
    ...(told.deprecationWarning === undefined ? {} : { deprecationWarning: told.deprecationWarning }),
    ...(told.scale === undefined ? {} : { scale: told.scale }),
    ...(told.answer === undefined ? {} : { answer: told.answer }),
  };
}
