import type { JsonObject } from '../../json/json.ts';
import type { ResourceType } from '../../machinery/resource-type.ts';

/** `#/components/schemas/…` */
export const refTo = (name: string): { readonly $ref: string } => ({ $ref: `#/components/schemas/${name}` });

const META = 'io.k8s.apimachinery.pkg.apis.meta.v1';

/** Schemas that all documents share. */
export const SHARED = {
  objectMeta: `${META}.ObjectMeta`,
  listMeta: `${META}.ListMeta`,
  status: `${META}.Status`,
  deleteOptions: `${META}.DeleteOptions`,
  patch: `${META}.Patch`,
  intOrString: 'io.k8s.apimachinery.pkg.util.intstr.IntOrString',
} as const;

/** The Go packages of groups outside k8s.io/api. */
const OTHER_PACKAGES: Readonly<Record<string, string>> = {
  'apiextensions.k8s.io': 'io.k8s.apiextensions-apiserver.pkg.apis.apiextensions',
  'apiregistration.k8s.io': 'io.k8s.kube-aggregator.pkg.apis.apiregistration',
};

/**
 * The name of a kind's schema: `io.k8s.api.core.v1.Service` from the Go package of a built-in kind,
 * `com.example.infra.v1.Server` from the group of a custom resource.
 */
export function schemaName({ group, version, custom }: ResourceType, kind: string): string {
  return `${custom ? group.split('.').toReversed().join('.') : packageOf(group)}.${version}.${kind}`;
}

function packageOf(group: string): string {
  const other = Object.hasOwn(OTHER_PACKAGES, group) ? OTHER_PACKAGES[group] : undefined;
  return other ?? `io.k8s.api.${group === '' ? 'core' : (group.split('.', 1)[0] ?? group)}`;
}

export interface GroupVersionKind {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
}

/** Exactly these keys, because kubectl compares the whole object. */
export const gvkOf = ({ group, version, kind }: GroupVersionKind): JsonObject => ({ group, version, kind });

/** One object with the fields of all; the last one wins. */
export const merged = (objects: readonly JsonObject[]): JsonObject =>
  Object.fromEntries(objects.flatMap((object) => Object.entries(object)));
