import type { JsonValue } from '../../json/json.ts';
import type { ApiObject } from './api-object.ts';
import type { Cause } from './failure.ts';
import type { ResourceVerb, UserInfo } from './request.ts';
import type { Schema } from './schema/schema.ts';

/** A column of `kubectl get`, beside Name, which every kind has. */
export interface PrinterColumn {
  readonly name: string;
  readonly type: 'string' | 'integer' | 'number' | 'boolean' | 'date';
  readonly format?: string;
  readonly description?: string;
  /** 0 is always shown; more only with `-o wide`. */
  readonly priority?: number;
  /** A JSONPath as CRDs write it (`.spec.replicas`), or how a built-in kind computes its cell. */
  readonly value: string | ((object: ApiObject, now: Date) => JsonValue);
}

/** A subresource beside status and scale, such as `serviceaccounts/token`. */
export interface Subresource {
  readonly name: string;
  /** What it reads and writes; group and version are those of the resource where they are absent. */
  readonly kind: string;
  readonly group?: string;
  readonly version?: string;
  readonly verbs: readonly ResourceVerb[];
}

/** One version of one resource as it is served. Built-in kinds and versions of CRDs alike. */
export interface ResourceType {
  readonly group: string;
  readonly version: string;
  /** Plural, lower case. */
  readonly resource: string;
  readonly singular: string;
  readonly kind: string;
  readonly listKind: string;
  readonly shortNames: readonly string[];
  readonly categories: readonly string[];
  readonly namespaced: boolean;
  readonly verbs: readonly ResourceVerb[];
  /** Of the whole object without `metadata`, `apiVersion` and `kind`, which all kinds share. */
  readonly schema: Schema;
  /** Custom resources: unknown types of patch and preconditions differ, and the schema came from a user. */
  readonly custom: boolean;
  readonly columns: readonly PrinterColumn[];
  readonly hasStatus: boolean;
  readonly subresources?: readonly Subresource[];
  /** Paths in dots, as a CRD's scale subresource has them. */
  readonly scale?: {
    readonly specReplicasPath: string;
    readonly statusReplicasPath: string;
    readonly labelSelectorPath?: string;
  };
  /** The version in which objects are kept; all versions of a resource share a place in the storage. */
  readonly storageVersion: string;
  /** Field selectors that it takes beside metadata.name and metadata.namespace: `type` → value of the field. */
  readonly selectableFields: Readonly<Record<string, (object: ApiObject) => string>>;
  readonly strategy: Strategy;
  /** Shown as a warning to whoever uses this version. */
  readonly deprecationWarning?: string;
  /** Answers a create without storing anything (SubjectAccessReview, TokenReview). */
  readonly answer?: (object: ApiObject, user: UserInfo) => ApiObject;
}

/** What a kind does beyond its schema. All functions are pure; each is optional in effect (see `plainStrategy`). */
export interface Strategy {
  /**
   * Defaults that depend on other fields, where the schema's cannot say them (a Service's targetPort, a Secret's stringData).
   * Belongs wherever the schema's defaults are applied; running it twice does no harm. `prepareFor…` runs it again.
   */
  readonly completeDefaults?: (object: ApiObject) => ApiObject;
  /** Completes what is to be created: allocates, defaults, drops what the user may not set (e.g. status). */
  readonly prepareForCreate: (object: ApiObject) => ApiObject;
  /** The same for an update; `old` is what is stored. */
  readonly prepareForUpdate: (object: ApiObject, old: ApiObject) => ApiObject;
  /** `old` is what is stored; undefined on create. */
  readonly validate: (object: ApiObject, old?: ApiObject) => readonly Cause[];
  /** What comes on top of `validate`. */
  readonly validateUpdate: (object: ApiObject, old: ApiObject) => readonly Cause[];
  /**
   * What the first DELETE makes of the object, before finalizers decide whether it goes at once. `now` is RFC 3339 with
   * seconds. Absent: it stays as it is.
   */
  readonly beforeDelete?: (object: ApiObject, now: string) => ApiObject;
  /** Is `name` fit for this kind? Undefined: a DNS subdomain. */
  readonly nameProblem?: (name: string) => string | undefined;
  /** Whether metadata.generation counts changes: of everything but metadata, and but status where that is a subresource. */
  readonly countsGenerations: boolean;
}

export const plainStrategy: Strategy = {
  prepareForCreate: (object) => object,
  prepareForUpdate: (object) => object,
  validate: () => [],
  validateUpdate: () => [],
  countsGenerations: false,
};

/** `v1`, `infra.example.com/v1`. */
export const apiVersionOf = ({ group, version }: { readonly group: string; readonly version: string }) =>
  group === '' ? version : `${group}/${version}`;

/** What is served at the moment: built-in kinds and established CRDs. */
export interface ResourceRegistry {
  readonly find: (group: string, version: string, resource: string) => ResourceType | undefined;
  readonly findKind: (apiVersion: string, kind: string) => ResourceType | undefined;
  /** The type in which a resource's objects are stored. */
  readonly stored: (group: string, resource: string) => ResourceType | undefined;
  /** In discovery order: core first, then groups by name; the preferred version of each first. */
  readonly all: () => readonly ResourceType[];
}

/** `v`, major version, and for unstable versions their stage and its number. */
const KUBE_VERSION = /^v(\d+)(?:(alpha|beta)(\d+))?$/;

const STAGES = ['alpha', 'beta', 'stable'];

/** Higher comes first: [stage, major, number of the stage]. Undefined for names that are not of Kubernetes' form. */
function rank(version: string): readonly number[] | undefined {
  const [, major, stage = 'stable', minor = '0'] = KUBE_VERSION.exec(version) ?? [];
  return major === undefined ? undefined : [STAGES.indexOf(stage), Number(major), Number(minor)];
}

/**
 * Orders API versions by priority, the preferred first: GA before beta before alpha, then the higher number; names of any
 * other form come last, in alphabetical order. For `Array.sort`.
 *
 * @see https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definition-versioning/#version-priority
 */
export function compareVersions(left: string, right: string): number {
  const a = rank(left);
  const b = rank(right);
  if (a === undefined || b === undefined) {
    if (a === undefined && b === undefined) return left < right ? -1 : Number(left > right);
    return a === undefined ? 1 : -1;
  }
  for (const [index, value] of a.entries()) {
    const difference = (b[index] ?? 0) - value;
    if (difference !== 0) return difference;
  }
  return 0;
}
