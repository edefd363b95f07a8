import type { JsonValue } from '../json/json.ts';
import type { ApiObject } from './api-object.ts';
import type { Cause } from './failure.ts';
import type { ResourceVerb, UserInfo } from './request.ts';
import type { Schema } from './schema/schema.ts';

export interface PrinterColumn {
  readonly name: string;
  readonly type: 'string' | 'integer' | 'number' | 'boolean' | 'date';
  readonly format?: string;
  readonly description?: string;
  /** 0 is always shown; higher values only with `-o wide`. */
  readonly priority?: number;
  /** A JSONPath as in CRDs (`.spec.replicas`), or a function that computes the cell of a built-in kind. */
  readonly value: string | ((object: ApiObject, now: Date) => JsonValue);
}

export interface ResourceType {
  readonly group: string;
  readonly version: string;
  readonly resource: string;
  readonly singular: string;
  readonly kind: string;
  readonly listKind: string;
  readonly shortNames: readonly string[];
  readonly categories: readonly string[];
  readonly namespaced: boolean;
  readonly verbs: readonly ResourceVerb[];
  /** The schema of the object without `metadata`, `apiVersion` and `kind`, which all kinds share. */
  readonly schema: Schema;
  /** Whether a CRD defines the type. Custom resources support other patch types and preconditions. */
  readonly custom: boolean;
  /** Whether the definition is being deleted: then no objects can be created. */
  readonly isTerminating?: true;
  readonly columns: readonly PrinterColumn[];
  readonly hasStatus: boolean;
  /** Dotted paths, in the form of a CRD's scale subresource. */
  readonly scale?: {
    readonly specReplicasPath: string;
    readonly statusReplicasPath: string;
    readonly labelSelectorPath?: string;
  };
  /** The version in which objects are stored; all versions of a resource share one place in the storage. */
  readonly storageVersion: string;
  /** Field selectors in addition to metadata.name and metadata.namespace: a function for each supported field. */
  readonly selectableFields: Readonly<Record<string, (object: ApiObject) => string>>;
  readonly strategy: Strategy;
  readonly deprecationWarning?: string;
  /** Answers a create request without storing anything (SubjectAccessReview, TokenReview). */
  readonly answer?: (object: ApiObject, user: UserInfo) => ApiObject;
}

/** The behaviour of a kind beyond its schema. All functions are pure; `plainStrategy` has the defaults. */
export interface Strategy {
  /** Defaults that a schema cannot express, e.g. a Service's targetPort. Runs before `prepareFor…` and must be idempotent. */
  readonly completeDefaults?: (object: ApiObject) => ApiObject;
  /** Allocates values, applies defaults, and drops fields that users cannot set, e.g. status. */
  readonly prepareForCreate: (object: ApiObject) => ApiObject;
  /** The same for an update; `old` is the stored object. */
  readonly prepareForUpdate: (object: ApiObject, old: ApiObject) => ApiObject;
  /** `old` is the stored object; undefined on create. */
  readonly validate: (object: ApiObject, old?: ApiObject) => readonly Cause[];
  readonly validateUpdate: (object: ApiObject, old: ApiObject) => readonly Cause[];
  /** Changes the object on the first DELETE, before finalizers are considered. Absent: no change. */
  readonly beforeDelete?: (object: ApiObject, now: string) => ApiObject;
  /** The problem of a name, if any. If absent, names must be DNS subdomains. */
  readonly nameProblem?: (name: string) => string | undefined;
  /** Whether metadata.generation counts changes. Changes to metadata do not count, nor to a status subresource. */
  readonly countsGenerations: boolean;
}

export const plainStrategy: Strategy = {
  prepareForCreate: (object) => object,
  prepareForUpdate: (object) => object,
  validate: () => [],
  validateUpdate: () => [],
  countsGenerations: false,
};

export const apiVersionOf = ({ group, version }: { readonly group: string; readonly version: string }) =>
  group === '' ? version : `${group}/${version}`;

export interface ResourceRegistry {
  readonly find: (group: string, version: string, resource: string) => ResourceType | undefined;
  readonly findKind: (apiVersion: string, kind: string) => ResourceType | undefined;
  readonly stored: (group: string, resource: string) => ResourceType | undefined;
  /** Of a resource, the preferred version comes first. */
  readonly all: () => readonly ResourceType[];
}

/** `v` and a major version; unstable versions also have a stage and its number. */
const KUBE_VERSION = /^v(\d+)(?:(alpha|beta)(\d+))?$/;

const STAGES = ['alpha', 'beta', 'stable'];

/** Sort key [stage, major, number of the stage], higher first. Names in another form come last. */
function rank(version: string): readonly number[] {
  const [, major, stage = 'stable', minor = '0'] = KUBE_VERSION.exec(version) ?? [];
  return major === undefined ? [-1] : [STAGES.indexOf(stage), Number(major), Number(minor)];
}

/** For `Array.sort`: GA before beta before alpha, then higher numbers first (Kubernetes' version priority). */
export function compareVersions(left: string, right: string): number {
  const own = rank(left);
  const differences = rank(right).map((value, index) => value - (own[index] ?? 0));
  return differences.find((difference) => difference !== 0) ?? (left < right ? -1 : Number(left > right));
}
