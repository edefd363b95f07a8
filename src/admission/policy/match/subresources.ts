import { isJsonObject, type JsonObject, listIn, ownValue, textIn, valueIn } from '../../../json/json.ts';
import type { GroupResource } from '../../../json/kube-object.ts';
import { customLists, type KindLists } from '../mutations/list-types.ts';
import { RECORDED_SUBRESOURCES } from './recorded-subresources.ts';

/** `resource` is `pods/status`, for example; `bindings` are a subresource of Pods in all but name. */
export interface Subresource extends GroupResource {
  readonly operation: string;
  /** Whether its requests carry the object itself, so that the same policy can check them. */
  readonly sameObject: boolean;
  /** The fields of the object that change, such as `spec.containers.*.resources`. */
  readonly fields: readonly string[];
}

export const SUBRESOURCES: readonly Subresource[] = RECORDED_SUBRESOURCES.split(/\n(?=\S)/).flatMap(
  (entry) => {
    const [head = '', names = ''] = entry.split(':');
    const [operation = '', kind, ...fields] = head.split(' ');
    return [...names.matchAll(/([^\s./]+)\.?([^\s/]*)(\S*)/g)].map(
      ([, plural = '', group = '', rest = '']) => {
        return { group, resource: `${plural}${rest}`, operation, sameObject: kind === 'own', fields };
      },
    );
  },
);

/** A served version of a custom kind. */
export interface KindVersion extends GroupResource {
  readonly schema: unknown;
  /** As in a CustomResourceDefinition. */
  readonly scale: unknown;
}

/** @param wanted `*` is all versions */
export const kindVersions = (definition: unknown, kind: GroupResource, wanted: readonly string[]) =>
  listIn(definition, 'spec', 'versions')
    .filter((version) => valueIn(version, 'served') === true)
    .filter((version) => wanted.includes('*') || wanted.includes(textIn(version, 'name')))
    .map((version): KindVersion => {
      const schema = valueIn(version, 'schema', 'openAPIV3Schema');
      return { ...kind, schema, scale: valueIn(version, 'subresources', 'scale') };
    });

/** One unknown schema disables type checks: an expression or a path may be written for that kind. */
export function knownKinds(kinds: readonly (readonly KindVersion[])[]) {
  const schemas = kinds.flat().flatMap(({ schema }) => (namesFields(schema) ? [schema] : []));
  const scales = kinds.flat().flatMap(({ group, resource, scale }): readonly Subresource[] => {
    const path = textIn(scale, 'specReplicasPath');
    const change = { operation: 'UPDATE', sameObject: false, fields: [path.slice(1)] };
    return path === '' ? [] : [{ group, resource: `${resource}/scale`, ...change }];
  });
  const lists = kinds.flat().flatMap(({ group, resource, schema }): readonly KindLists[] => {
    const found = customLists(schema);
    return found === undefined ? [] : [{ group, resource, lists: found }];
  });
  return { schemas: kinds.every(isKnown) ? schemas : [], scales, lists };
}

export const isKnown = (versions: readonly KindVersion[]): boolean =>
  versions.length > 0 && versions.every(({ schema }) => namesFields(schema));

const namesFields = (schema: unknown): schema is JsonObject =>
  isJsonObject(schema) && isJsonObject(ownValue(schema, 'properties'));
