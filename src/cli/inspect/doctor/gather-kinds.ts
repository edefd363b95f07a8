/** Definitions, and objects of many kinds that more than one system may claim. */
import type { ConversionPolicy } from '../../../api/conversion-policy.ts';
import { customResourceDefinitions as shippedDefinitions } from '../../../api/crds.ts';
import { GROUP } from '../../../api/group.ts';
import type { KubeClient } from '../../../kube/client.ts';
import { groupResourceName } from '../../../json/kube-object.ts';
import type { Resource } from '../../../kube/object.ts';
import {
  apiServices,
  customResourceDefinitions,
  mutatingWebhookConfigurations,
  secrets,
  services,
  validatingWebhookConfigurations,
} from '../../../kube/well-known.ts';
import { SERVING_CERT_LABEL } from '../../../pki/annotations.ts';
import type { Claimed, Definition } from './evidence.ts';
import { look, type Look } from './look.ts';

const GET_DEFINITIONS = { verb: 'get', resource: groupResourceName(customResourceDefinitions) };

export function gatherDefinitions(
  client: Pick<KubeClient, 'get'>,
): Promise<Look<ReadonlyMap<string, Definition>>> {
  const names = shippedDefinitions().map(({ name }) => `${name}.${GROUP}`);
  return look(GET_DEFINITIONS, async () => new Map(await definitionsOf(client, names)));
}

export async function gatherConverted(
  client: Pick<KubeClient, 'get'>,
  conversions: Look<readonly ConversionPolicy[]>,
): Promise<Look<readonly Definition[]>> {
  if (conversions.kind !== 'seen') return conversions;
  const names = conversions.value.map(({ spec }) => `${spec.target.resource}.${spec.target.apiGroup}`);
  return await look(GET_DEFINITIONS, async () =>
    (await definitionsOf(client, names)).map(([, definition]) => definition),
  );
}

/** Those that there are. */
async function definitionsOf(
  client: Pick<KubeClient, 'get'>,
  names: readonly string[],
): Promise<readonly (readonly [string, Definition])[]> {
  const found = await Promise.all(
    names.map(async (name) => {
      const definition = await client.get<Definition>(customResourceDefinitions, { name });
      return definition === undefined ? [] : [[name, definition] as const];
    }),
  );
  return found.flat();
}

/** ConfigMaps are left out: there are too many of them, and their `data` has many writers by right. */
const CLAIMABLE: readonly { readonly resource: Resource; readonly labelSelector?: string }[] = [
  { resource: mutatingWebhookConfigurations },
  { resource: validatingWebhookConfigurations },
  { resource: customResourceDefinitions },
  { resource: apiServices },
  { resource: services },
  { resource: secrets, labelSelector: `${SERVING_CERT_LABEL.name}=${SERVING_CERT_LABEL.value}` },
];

export async function gatherClaimed(
  client: Pick<KubeClient, 'listAll'>,
): Promise<readonly Look<readonly Claimed[]>[]> {
  return await Promise.all(
    CLAIMABLE.map(({ resource, labelSelector }) =>
      look({ verb: 'list', resource: groupResourceName(resource) }, async () => {
        const { items } = await client.listAll(resource, { metadataOnly: true, labelSelector });
        return items.map(({ metadata = {} }) => ({ kind: resource.kind, metadata }));
      }),
    ),
  );
}
