import type { ApiObject } from '../api-object.ts';
import { checkedFormat } from '../schema/formats.ts';
import type { Schema } from '../schema/schema.ts';
import { readDefinition } from './definition.ts';

/**
 * What the API server warns of when it accepts a definition: formats that it ignores, and sets of objects or lists.
 * @param old whose warnings are not repeated
 * @see k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition/strategy.go
 */
export function definitionWarnings(crd: ApiObject, old?: ApiObject): readonly string[] {
  const known = old === undefined ? [] : warningsOf(old);
  return warningsOf(crd).filter((warning) => !known.includes(warning));
}

function warningsOf(crd: ApiObject): readonly string[] {
  const nodes = readDefinition(crd).versions.flatMap(({ schema }) => nodesOf(schema));
  const formats = nodes.flatMap((node) =>
    (node.format ?? '') === '' || checkedFormat(node) !== undefined
      ? []
      : [`unrecognized format ${JSON.stringify(node.format)}`],
  );
  return [...formats, ...new Set(nodes.flatMap(setWarnings).toSorted())];
}

function setWarnings(node: Schema): readonly string[] {
  const { type = '' } = node.items ?? {};
  if (node['x-kubernetes-list-type'] !== 'set' || !['object', 'array'].includes(type)) return [];
  return [
    `x-kubernetes-list-type: set for items of type "${type}" is not supported by server-side apply or CEL validation rules`,
  ];
}

/** All parts of a schema, including branches. */
function nodesOf(schema: Schema | boolean | undefined): readonly Schema[] {
  if (typeof schema !== 'object') return [];
  const { items, allOf = [], anyOf = [], oneOf = [], not, properties = {}, additionalProperties } = schema;
  const children = [
    items,
    ...allOf,
    ...anyOf,
    ...oneOf,
    not,
    ...Object.values(properties),
    additionalProperties,
  ];
  return [schema, ...children.flatMap(nodesOf)];
}
