/** Serving Secrets that their Service no longer asks for: its annotation was removed, or names another one. */
import { CA_BUNDLE_KEY, TLS_CERT_KEY, TLS_PRIVATE_KEY_KEY } from '../../pki/annotations.ts';
import type { StoredSecret } from '../../pki/serving-certs/facts.ts';
import { markedService, ownership, writtenOutputs, type Secret } from '../../pki/serving-certs/secret.ts';
import { OUTPUT_KEYS } from '../../pki/serving-certs/outputs.ts';
import type { Service } from '../../pki/serving-certs/request.ts';
import type { Log } from '../../log.ts';
import type { RecordEvent } from '../controller.ts';
import { identityOf } from './serving-certs-case.ts';
import type { Leaves } from './serving-certs-leaves.ts';
import { regardingSecret } from './serving-certs-notices.ts';
import { WriteRefused } from '../write-refused.ts';

export interface OrphansDeps {
  /** From the store: those that are marked for the Service `key`. */
  readonly storedSecretsOf: (key: string) => readonly StoredSecret[];
  /** From the store: whether some Service asks for this Secret (`namespace/name`). */
  readonly isClaimed: (secretKey: string) => boolean;
  readonly readSecret: (namespace: string, name: string, signal: AbortSignal) => Promise<Secret | undefined>;
  readonly readService: (
    namespace: string,
    name: string,
    signal: AbortSignal,
  ) => Promise<Service | undefined>;
  /** @throws WriteRefused */
  readonly deleteSecret: (secret: Secret, signal: AbortSignal) => Promise<unknown>;
  /** The name of the Secret that a Service asks for. */
  readonly secretNameOf: (service: Service) => string | undefined;
  readonly onRemoval: 'retain' | 'delete';
  readonly leaves: Pick<Leaves, 'stopped' | 'renewed'>;
  readonly record: RecordEvent;
  readonly log: Log;
}

/** Nobody renews them any more, which must not come as a surprise: told once, counted for as long as they are there. */
export async function releaseOrphans(
  key: string,
  service: Service | undefined,
  deps: OrphansDeps,
  signal: AbortSignal,
): Promise<void> {
  const wanted = service === undefined ? undefined : deps.secretNameOf(service);
  for (const secret of deps.storedSecretsOf(key)) {
    const { namespace = '', name = '' } = secret.metadata ?? {};
    const secretKey = `${namespace}/${name}`;
    if (name === wanted || deps.isClaimed(secretKey)) continue;
    if (service === undefined) {
      deps.leaves.stopped(secretKey, 'ServiceGone'); // Kubernetes deletes it: the Service owns it
      continue;
    }
    if (deps.onRemoval === 'delete' && (await deleteOrphan(secretKey, service, deps, signal))) continue;
    if (deps.leaves.stopped(secretKey, 'NotRequested')) tell(secret, service, deps);
  }
}

/** Whether it is gone. Decided on what the API server holds, both for the Service and for the Secret. */
async function deleteOrphan(
  secretKey: string,
  { metadata }: Service,
  deps: OrphansDeps,
  signal: AbortSignal,
): Promise<boolean> {
  const { namespace = '', name: serviceName = '' } = metadata ?? {};
  const name = secretKey.slice(namespace.length + 1);
  const service = await deps.readService(namespace, serviceName, signal);
  if (service === undefined || deps.secretNameOf(service) === name) return false;
  const secret = await deps.readSecret(namespace, name, signal);
  if (secret === undefined) return true;
  const identity = identityOf(service);
  if (
    markedService(secret) !== serviceName ||
    ['foreign', 'another-service'].includes(ownership(secret, identity))
  )
    return false;
  if (!holdsOnlyOurs(secret)) return false;
  try {
    await deps.deleteSecret(secret, signal);
  } catch (error) {
    if (!(error instanceof WriteRefused)) throw error;
    // It must not keep the Service from the Secret that it asks for now.
    const key = `${namespace}/${serviceName}`;
    deps.log.warn({ key, secret: name, problem: error.message }, 'serving secret is not deleted');
    return false;
  }
  deps.leaves.renewed(secretKey);
  deps.log.info({ key: `${namespace}/${serviceName}`, secret: name }, 'deleted serving secret');
  deps.record({
    regarding: { apiVersion: 'v1', kind: 'Service', ...identity },
    type: 'Normal',
    reason: 'SecretDeleted',
    message: `secret ${name} with a serving cert is deleted: the Service no longer asks for it`,
  });
  return true;
}

/** What others keep in it is not ours to delete. */
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

function tell(secret: StoredSecret, service: Service, { record, log }: OrphansDeps): void {
  const { sketch } = secret;
  const { namespace, name } = regardingSecret(secret);
  const identity = identityOf(service);
  const until = sketch?.kind === 'usable' ? ` It ends at ${sketch.notAfter.toISOString()}.` : '';
  const message =
    `the serving cert in secret ${name} is not renewed any more, because Service ${identity.name} does not ask for it.${until} ` +
    'Put the annotation back, or delete the secret.';
  const event = { type: 'Warning', reason: 'RenewalStopped', message } as const;
  record({ regarding: { apiVersion: 'v1', kind: 'Service', ...identity }, ...event });
  record({ regarding: regardingSecret(secret), ...event });
  log.warn({ key: `${namespace}/${identity.name}`, secret: name }, 'serving cert is not renewed any more');
}
