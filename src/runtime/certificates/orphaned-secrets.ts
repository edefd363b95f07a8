/** Serving Secrets that their Service no longer asks for: its annotation was removed, or names another Secret. */
import { secrets, services } from '../../kube/well-known.ts';
import { CA_BUNDLE_KEY, TLS_CERT_KEY, TLS_PRIVATE_KEY_KEY } from '../../pki/annotations.ts';
import type { StoredSecret } from '../../pki/serving-certs/facts.ts';
import { OUTPUT_KEYS } from '../../pki/serving-certs/outputs.ts';
import type { Service } from '../../pki/serving-certs/request.ts';
import { markedService, ownership, writtenOutputs, type Secret } from '../../pki/serving-certs/secret.ts';
import { WriteRefused } from '../write-refused.ts';
import { deleteSecret } from './repair-secret.ts';
import { regardingSecret, regardingService } from './serving-cert-events.ts';
import { identityOf, type ServingCertsContext } from './serving-cert-task.ts';

/** An orphan is no longer renewed, so it is reported once, and counted as long as it exists. */
export async function releaseOrphans(
  key: string,
  service: Service | undefined,
  context: ServingCertsContext,
  signal: AbortSignal,
): Promise<void> {
  const { stores, requests, inventory, onRemoval } = context;
  const wanted = service === undefined ? undefined : requests.claimOf(service)?.secretName;
  for (const secret of stores.secretsOf(key)) {
    const { namespace = '', name = '' } = secret.metadata ?? {};
    const secretKey = `${namespace}/${name}`;
    if (name === wanted || stores.claimants(secretKey).length > 0) continue;
    if (service === undefined) {
      inventory.stopped(secretKey, 'ServiceGone'); // the garbage collector deletes it: the Service owns it
      continue;
    }
    if (onRemoval === 'delete' && (await deleteOrphan(name, service, context, signal))) continue;
    if (inventory.stopped(secretKey, 'NotRequested')) reportOrphan(secret, service, context);
  }
}

/** Returns whether the Secret is gone. Decides on live reads of both the Service and the Secret. */
async function deleteOrphan(
  name: string,
  { metadata }: Service,
  { client, requests, inventory, record, log }: ServingCertsContext,
  signal: AbortSignal,
): Promise<boolean> {
  const { namespace = '', name: serviceName = '' } = metadata ?? {};
  const service = await client.get<Service>(services, { namespace, name: serviceName }, { signal });
  if (service === undefined || requests.claimOf(service)?.secretName === name) return false;
  const secret = await client.get<Secret>(secrets, { namespace, name }, { signal });
  if (secret === undefined) return true;
  const identity = identityOf(service);
  if (
    markedService(secret) !== serviceName ||
    ['foreign', 'another-service'].includes(ownership(secret, identity)) ||
    !holdsOnlyOurs(secret)
  )
    return false;
  const key = `${namespace}/${serviceName}`;
  try {
    await deleteSecret(client, secret, signal);
  } catch (error) {
    if (!(error instanceof WriteRefused)) throw error;
    // The refusal must not keep the Service from the Secret that it asks for now.
    log.warn({ key, secret: name, problem: error.message }, 'serving secret is not deleted');
    return false;
  }
  inventory.renewed(`${namespace}/${name}`);
  log.info({ key, secret: name }, 'deleted serving secret');
  record({
    regarding: regardingService(identity),
    type: 'Normal',
    reason: 'SecretDeleted',
    message: `secret ${name} with a serving cert is deleted: the Service no longer asks for it`,
  });
  return true;
}

/** Gatehouse does not delete data of other writers. */
function holdsOnlyOurs(secret: Secret): boolean {
  const ours = new Set([
    TLS_CERT_KEY,
    TLS_PRIVATE_KEY_KEY,
    CA_BUNDLE_KEY,
    ...writtenOutputs(secret).flatMap((output) => OUTPUT_KEYS[output]),
  ]);
  const owners = secret.metadata?.ownerReferences ?? [];
  return Object.keys(secret.data ?? {}).every((key) => ours.has(key)) && owners.length <= 1;
}

function reportOrphan(secret: StoredSecret, service: Service, { record, log }: ServingCertsContext): void {
  const { summary } = secret;
  const { namespace, name } = regardingSecret(secret);
  const identity = identityOf(service);
  const until = summary?.kind === 'usable' ? ` It ends at ${summary.notAfter.toISOString()}.` : '';
  const message =
    `the serving cert in secret ${name} is no longer renewed, because Service ${identity.name} does not ask for it.${until} ` +
    'Put the annotation back, or delete the secret.';
  const event = { type: 'Warning', reason: 'RenewalStopped', message } as const;
  record({ regarding: regardingService(identity), ...event });
  record({ regarding: regardingSecret(secret), ...event });
  log.warn({ key: `${namespace}/${identity.name}`, secret: name }, 'serving cert is no longer renewed');
}
