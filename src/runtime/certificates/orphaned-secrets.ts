/** Serving Secrets that their Service no longer asks for: its annotation was removed, or names another Secret. */
import { secrets, services } from '../../kube/well-known.ts';
import type { StoredSecret } from '../../pki/serving-certs/facts.ts';
import type { Service } from '../../pki/serving-certs/request.ts';
import {
  hasForeignKeys,
  markedService,
  ownership,
  withoutServingCert,
  type Secret,
  type ServiceIdentity,
} from '../../pki/serving-certs/secret.ts';
import { CLUSTER_ROLE, refusable, isWritten } from '../write-refused.ts';
import { deleteSecret } from './repair-secret.ts';
import { regardingSecret, regardingService } from './serving-cert-events.ts';
import { identityOf, type ServingCertsContext } from './serving-cert-task.ts';

/** What became of an orphan. `refused`: the API server refuses the write, so try again later. */
type Outcome = 'removed' | 'kept' | 'refused';

/**
 * An orphan is no longer renewed, so it is reported once, and counted as long as it exists. Returns whether the API
 * server refused a write: no watch reports when it would accept it.
 */
export async function releaseOrphans(
  key: string,
  service: Service | undefined,
  context: ServingCertsContext,
  signal: AbortSignal,
): Promise<boolean> {
  const { stores, inventory, onRemoval } = context;
  const outcomes: Outcome[] = [];
  for (const secret of stores.secretsOf(key)) {
    const { namespace = '', name = '' } = secret.metadata ?? {};
    const secretKey = `${namespace}/${name}`;
    if (stores.claimants(secretKey).length > 0) continue;
    if (service === undefined) {
      // The garbage collector deletes it, because the Service owns it. But data of other clients stays.
      if (secret.hasForeignKeys === true) outcomes.push(await clearAbandoned(secret, context, signal));
      else inventory.stopped(secretKey, 'ServiceGone');
      continue;
    }
    if (secret.summary === undefined && secret.hasForeignKeys === true) continue; // holds no cert of ours
    const outcome = onRemoval === 'delete' ? await deleteOrphan(name, service, context, signal) : 'kept';
    outcomes.push(outcome);
    if (outcome !== 'removed' && inventory.stopped(secretKey, 'NotRequested'))
      reportOrphan(secret, service, context);
  }
  return outcomes.includes('refused');
}

/** `removed`: also if the deletion waits for a finalizer. Decides on live reads of both the Service and the Secret. */
async function deleteOrphan(
  name: string,
  { metadata }: Service,
  context: ServingCertsContext,
  signal: AbortSignal,
): Promise<Outcome> {
  const { client, requests, inventory, record, log } = context;
  const { namespace = '', name: serviceName = '' } = metadata ?? {};
  const service = await client.get<Service>(services, { namespace, name: serviceName }, { signal });
  if (service === undefined || requests.claims(service).some(({ secretName }) => secretName === name))
    return 'kept';
  const secret = await client.get<Secret>(secrets, { namespace, name }, { signal });
  if (secret === undefined || secret.metadata?.deletionTimestamp !== undefined) return 'removed';
  const identity = identityOf(service);
  if (
    markedService(secret) !== serviceName ||
    ['foreign', 'another-service'].includes(ownership(secret, identity))
  )
    return 'kept';
  if (hasForeignKeys(secret)) return await clear(secret, identity, context, signal);
  if ((secret.metadata?.ownerReferences ?? []).length > 1) return 'kept';
  const key = `${namespace}/${serviceName}`;
  // A refusal must not keep the Service from the Secret that it asks for now.
  const isDeleted = await isWritten(
    () => deleteSecret(client, secret, signal),
    (problem) => log.warn({ key, secret: name, problem }, 'serving secret is not deleted'),
  );
  if (!isDeleted) return 'refused';
  inventory.renewed(`${namespace}/${name}`);
  log.info({ key, secret: name }, 'deleted serving secret');
  record({
    regarding: regardingService(identity),
    type: 'Normal',
    reason: 'SecretDeleted',
    message: `secret ${name} with a serving cert is deleted: the Service no longer asks for it`,
  });
  return 'removed';
}

/** For a Service that is gone. Decides on live reads of both the Service and the Secret. */
async function clearAbandoned(
  { metadata, summary }: StoredSecret,
  context: ServingCertsContext,
  signal: AbortSignal,
): Promise<Outcome> {
  if (summary === undefined) return 'kept';
  const { namespace = '', name = '' } = metadata ?? {};
  const secret = await context.client.get<Secret>(secrets, { namespace, name }, { signal });
  const serviceName = secret && markedService(secret);
  if (secret === undefined || serviceName === undefined || !hasForeignKeys(secret)) return 'kept';
  const service = { namespace, name: serviceName, uid: '' };
  if ((await context.client.get<Service>(services, service, { signal })) !== undefined) return 'kept';
  return ownership(secret, service) === 'ours' ? await clear(secret, service, context, signal) : 'kept';
}

/** Removes the cert and leaves the data of other clients. */
async function clear(
  secret: Secret,
  service: ServiceIdentity,
  { client, inventory, record, log }: ServingCertsContext,
  signal: AbortSignal,
): Promise<Outcome> {
  const { namespace = '', name = '' } = secret.metadata ?? {};
  const key = `${service.namespace}/${service.name}`;
  const write = () => client.replace(secrets, withoutServingCert(secret, service), { signal });
  const isCleared = await isWritten(
    () => refusable(CLUSTER_ROLE, write),
    (problem) => log.warn({ key, secret: name, problem }, 'the cert stays in a serving secret'),
  );
  if (!isCleared) return 'refused';
  inventory.renewed(`${namespace}/${name}`);
  log.info({ key, secret: name }, 'removed the cert from a serving secret');
  record({
    regarding: regardingSecret(secret),
    type: 'Normal',
    reason: 'CertificateRemoved',
    message: `the serving cert is removed, because no Service asks for it; the data of other clients stays`,
  });
  return 'removed';
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
