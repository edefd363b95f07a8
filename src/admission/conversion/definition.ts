import { isDeepStrictEqual } from 'node:util';

import { isJsonObject, listIn, textIn, valueIn } from '../../json/json.ts';

export type Definition = NonNullable<ReturnType<typeof readDefinition>>;

/** Reads a CustomResourceDefinition of apiextensions.k8s.io/v1. Returns undefined for anything else. */
export function readDefinition(crd: unknown) {
  const spec = valueIn(crd, 'spec');
  const group = textIn(spec, 'group');
  const [resource = '', kind = ''] = ['plural', 'kind'].map((key) => textIn(spec, 'names', key));
  if (group === '' || resource === '' || kind === '') return undefined;
  const storedVersions = listIn(crd, 'status', 'storedVersions');
  const keepsUnknown = valueIn(spec, 'preserveUnknownFields') === true;
  const versions = listIn(spec, 'versions').map((version) => {
    const name = textIn(version, 'name');
    const schema = keepsUnknown ? undefined : valueIn(version, 'schema', 'openAPIV3Schema');
    return {
      name,
      served: valueIn(version, 'served') === true,
      /** Whether objects are stored, or may be stored, in this version. */
      stored: valueIn(version, 'storage') === true || storedVersions.includes(name),
      /** The structural schema. Undefined if the API server keeps all fields. */
      schema: isJsonObject(schema) ? schema : undefined,
    };
  });
  return { group, resource, kind, versions, conversion: conversionOf(valueIn(spec, 'conversion')) };
}

function conversionOf(conversion: unknown) {
  const webhook = valueIn(conversion, 'webhook');
  const client = valueIn(webhook, 'clientConfig');
  const service = valueIn(client, 'service');
  const port = valueIn(service, 'port');
  return {
    strategy: textIn(conversion, 'strategy') || 'None',
    /** Undefined if the webhook is given by URL, or missing. */
    service: isJsonObject(service)
      ? {
          namespace: textIn(service, 'namespace'),
          name: textIn(service, 'name'),
          path: textIn(service, 'path'),
          port: typeof port === 'number' ? port : 443,
        }
      : undefined,
    url: textIn(client, 'url') || undefined,
    hasCaBundle: textIn(client, 'caBundle') !== '',
    reviewVersions: listIn(webhook, 'conversionReviewVersions').filter(
      (version) => typeof version === 'string',
    ),
  };
}

export const sameForConversion = (one: Definition, other: Definition): boolean =>
  one.kind === other.kind && isDeepStrictEqual(one.versions, other.versions);
