import { isDeepStrictEqual } from 'node:util';

import type { GroupResource } from '../../json/kube-object.ts';
import { isJsonObject, listIn, textIn, valueIn, type JsonObject } from '../../json/json.ts';

export interface Definition extends GroupResource {
  readonly kind: string;
  readonly versions: readonly {
    readonly name: string;
    readonly served: boolean;
    /** Whether objects are stored, or may be stored, in this version. */
    readonly stored: boolean;
    /** The structural schema. Undefined if the API server keeps all fields. */
    readonly schema: JsonObject | undefined;
  }[];
  readonly conversion: {
    readonly strategy: string;
    /** Undefined if the webhook is given by URL, or missing. */
    readonly service:
      | { readonly namespace: string; readonly name: string; readonly path: string; readonly port: number }
      | undefined;
    readonly url: string | undefined;
    readonly hasCaBundle: boolean;
    readonly reviewVersions: readonly string[];
  };
}

/** Reads a CustomResourceDefinition of apiextensions.k8s.io/v1. Returns undefined for anything else. */
export function readDefinition(crd: unknown): Definition | undefined {
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
      stored: valueIn(version, 'storage') === true || storedVersions.includes(name),
      schema: isJsonObject(schema) ? schema : undefined,
    };
  });
  return { group, resource, kind, versions, conversion: conversionOf(valueIn(spec, 'conversion')) };
}

function conversionOf(conversion: unknown): Definition['conversion'] {
  const webhook = valueIn(conversion, 'webhook');
  const client = valueIn(webhook, 'clientConfig');
  const service = valueIn(client, 'service');
  const port = valueIn(service, 'port');
  return {
    strategy: textIn(conversion, 'strategy') || 'None',
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
