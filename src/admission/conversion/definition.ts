import { isDeepStrictEqual } from 'node:util';

import type { GroupResource } from '../../json/kube-object.ts';
import { isJsonArray, isJsonObject, ownValue, type JsonObject } from '../../json/json.ts';

/** The parts of a CustomResourceDefinition that conversion needs. */
export interface Definition extends GroupResource {
  readonly kind: string;
  readonly versions: readonly DefinitionVersion[];
  readonly conversion: ConversionStanza;
}

export interface DefinitionVersion {
  readonly name: string;
  readonly served: boolean;
  /** Whether objects are stored, or may be stored, in this version. */
  readonly stored: boolean;
  /** The structural schema. Undefined if the API server keeps all fields. */
  readonly schema: JsonObject | undefined;
}

/** The conversion webhook of the definition. */
export interface ConversionStanza {
  readonly strategy: string;
  /** Undefined if the webhook is given by URL, or missing. */
  readonly service:
    | { readonly namespace: string; readonly name: string; readonly path: string; readonly port: number }
    | undefined;
  readonly url: string | undefined;
  readonly hasCaBundle: boolean;
  readonly reviewVersions: readonly string[];
}

/** Reads a CustomResourceDefinition of apiextensions.k8s.io/v1. Returns undefined for anything else. */
export function readDefinition(crd: unknown): Definition | undefined {
  const spec = recordIn(crd, 'spec');
  const names = recordIn(spec, 'names');
  const [group, resource, kind] = [textIn(spec, 'group'), textIn(names, 'plural'), textIn(names, 'kind')];
  if (group === '' || resource === '' || kind === '') return undefined;
  const storedVersions = listIn(recordIn(crd, 'status'), 'storedVersions');
  const keepsUnknown = ownOf(spec, 'preserveUnknownFields') === true;
  return {
    group,
    resource,
    kind,
    versions: listIn(spec, 'versions').map((version) => {
      const name = textIn(version, 'name');
      const schema = keepsUnknown ? undefined : recordIn(recordIn(version, 'schema'), 'openAPIV3Schema');
      return {
        name,
        served: ownOf(version, 'served') === true,
        stored: ownOf(version, 'storage') === true || storedVersions.includes(name),
        schema,
      };
    }),
    conversion: stanzaOf(recordIn(spec, 'conversion')),
  };
}

const DEFAULT_PORT = 443;

function stanzaOf(conversion: JsonObject | undefined): ConversionStanza {
  const webhook = recordIn(conversion, 'webhook');
  const client = recordIn(webhook, 'clientConfig');
  const service = recordIn(client, 'service');
  const port = ownOf(service, 'port');
  const url = textIn(client, 'url');
  return {
    strategy: textIn(conversion, 'strategy') || 'None',
    service:
      service === undefined
        ? undefined
        : {
            namespace: textIn(service, 'namespace'),
            name: textIn(service, 'name'),
            path: textIn(service, 'path'),
            port: typeof port === 'number' ? port : DEFAULT_PORT,
          },
    url: url === '' ? undefined : url,
    hasCaBundle: textIn(client, 'caBundle') !== '',
    reviewVersions: listIn(webhook, 'conversionReviewVersions').filter(
      (version) => typeof version === 'string',
    ),
  };
}

/** Whether the steps of a policy have the same meaning for both definitions. */
export function sameForConversion(one: Definition, other: Definition): boolean {
  return one.kind === other.kind && isDeepStrictEqual(one.versions, other.versions);
}

function ownOf(value: unknown, key: string): unknown {
  return isJsonObject(value) ? ownValue(value, key) : undefined;
}

function recordIn(value: unknown, key: string): JsonObject | undefined {
  const found = ownOf(value, key);
  return isJsonObject(found) ? found : undefined;
}

function textIn(value: unknown, key: string): string {
  const found = ownOf(value, key);
  return typeof found === 'string' ? found : '';
}

function listIn(value: unknown, key: string): readonly unknown[] {
  const found = ownOf(value, key);
  return isJsonArray(found) ? found : [];
}
