/** The one place of `gatehouse status` that reads: as the user of the kubeconfig, and writes nothing. */
import type { AdmissionPolicy } from '../../../api/admission-policy.ts';
import type { RestoreWindow } from '../../../api/restore-window.ts';
import type { ConfigMap } from '../../../runtime/certificates/ca-bundle.ts';
import type { KubeClient } from '../../../kube/client.ts';
import { keyOf, type KubeObject } from '../../../json/kube-object.ts';
import type { Resource } from '../../../kube/object.ts';
import type { LeaseObject } from '../../../kube/lease-record.ts';
import {
  apiServices,
  configMaps,
  customResourceDefinitions,
  leases,
  mutatingWebhookConfigurations,
  secrets,
  validatingWebhookConfigurations,
} from '../../../kube/well-known.ts';
import { AUTHORITY_SECRET, CABUNDLE_CONFIGMAP, SERVING_CERT_LABEL } from '../../../pki/annotations.ts';
import { sourceName, type Compat, type SourceRef } from '../../../pki/injection/request.ts';
import { toSourceObject, type SourceObject } from '../../../pki/injection/source.ts';
import { TARGET_KINDS, type RawTarget, type TargetKind } from '../../../pki/injection/target.ts';
import { toStoredSecret, type StoredSecret } from '../../../pki/serving-certs/facts.ts';
import type { Secret } from '../../../pki/serving-certs/secret.ts';
import { ADMISSION_POLICIES, RESTORE_WINDOWS } from '../../../runtime/resources.ts';
import { tryToRead, valueOf, type Reading } from './reading.ts';
import { isTarget, sourcesOf } from './report/injection-targets.ts';
import type { Pod } from './report/leader.ts';

export interface ClusterReadings {
  readonly lease: Reading<LeaseObject | undefined>;
  readonly pods: Reading<readonly Pod[]>;
  /** With private keys in it: nothing of it but what {@link parseAuthority} makes public may be shown. */
  readonly authority: Reading<Secret | undefined>;
  readonly caBundle: Reading<ConfigMap | undefined>;
  readonly servingSecrets: Reading<readonly StoredSecret[]>;
  readonly targets: readonly TargetsReading[];
  /** What targets have their bundle from, beside the authority, by {@link sourceName}. */
  readonly sources: ReadonlyMap<string, Reading<SourceObject | undefined>>;
  readonly policies: Reading<readonly AdmissionPolicy[]>;
  readonly windows: Reading<readonly RestoreWindow[]>;
}

/** Of one kind, those that ask for a CA bundle, and Gatehouse's own. */
export interface TargetsReading {
  readonly kind: TargetKind;
  readonly objects: Reading<readonly RawTarget[]>;
}

export interface Scope {
  /** In which Gatehouse runs. */
  readonly namespace: string;
  /** As `gatehouse serve` has it. */
  readonly compat: readonly Compat[];
}

type Reader = Pick<KubeClient, 'get' | 'listAll'>;

/** A person waits: a part that does not answer must not hold up the others for long. */
const TIMEOUT_MS = 15_000;

const PODS: Resource = { group: '', version: 'v1', resource: 'pods', kind: 'Pod', namespaced: true };

const TARGETS: readonly (readonly [TargetKind, Resource])[] = [
  [TARGET_KINDS.mutating, mutatingWebhookConfigurations],
  [TARGET_KINDS.validating, validatingWebhookConfigurations],
  [TARGET_KINDS.customResourceDefinition, customResourceDefinitions],
  [TARGET_KINDS.apiService, apiServices],
  [TARGET_KINDS.configMap, configMaps],
];

export async function readCluster(client: Reader, scope: Scope): Promise<ClusterReadings> {
  const { namespace } = scope;
  const get = <T extends KubeObject>(resource: Resource, name: string) =>
    tryToRead(() => client.get<T>(resource, { namespace, name }, { timeoutMs: TIMEOUT_MS }));
  const [lease, pods, authority, caBundle, servingSecrets, targets, policies, windows] = await Promise.all([
    get<LeaseObject>(leases, 'gatehouse'),
    listed<Pod>(client, PODS, { namespace, labelSelector: 'app.kubernetes.io/name=gatehouse' }),
    get<Secret>(secrets, AUTHORITY_SECRET),
    get<ConfigMap>(configMaps, CABUNDLE_CONFIGMAP),
    readServingSecrets(client),
    Promise.all(TARGETS.map(([kind, resource]) => readTargets(client, kind, resource, scope))),
    listed<AdmissionPolicy & KubeObject>(client, ADMISSION_POLICIES),
    listed<RestoreWindow & KubeObject>(client, RESTORE_WINDOWS),
  ]);
  const sources = await readSources(client, targets, scope);
  return { lease, pods, authority, caBundle, servingSecrets, targets, sources, policies, windows };
}

function listed<T extends KubeObject>(
  client: Reader,
  resource: Resource,
  options: { readonly namespace?: string; readonly labelSelector?: string } = {},
): Promise<Reading<readonly T[]>> {
  return tryToRead(
    async () => (await client.listAll<T>(resource, { ...options, timeoutMs: TIMEOUT_MS })).items,
  );
}

/** Their keys are forgotten as soon as they are known to fit their certificates. */
function readServingSecrets(client: Reader): Promise<Reading<readonly StoredSecret[]>> {
  const labelSelector = `${SERVING_CERT_LABEL.name}=${SERVING_CERT_LABEL.value}`;
  return tryToRead(async () => {
    const { items } = await client.listAll<Secret>(secrets, { labelSelector, timeoutMs: TIMEOUT_MS });
    return items.map(toStoredSecret);
  });
}

/** How many objects are asked for at a time. */
const AT_ONCE = 8;

/** ConfigMaps and CRDs can be many and large: of all of them the metadata are read, and whole those that matter. */
async function readTargets(
  client: Reader,
  kind: TargetKind,
  resource: Resource,
  scope: Scope,
): Promise<TargetsReading> {
  const objects = await tryToRead(async () => {
    const { items } = await client.listAll(resource, { metadataOnly: true, timeoutMs: TIMEOUT_MS });
    const wanted = items.filter((object) => isTarget(kind, object, scope));
    const found: RawTarget[] = [];
    for (let start = 0; start < wanted.length; start += AT_ONCE) {
      const some = wanted.slice(start, start + AT_ONCE).map(({ metadata = {} }) => {
        const { namespace, name = '' } = metadata;
        return client.get<RawTarget & KubeObject>(resource, { namespace, name }, { timeoutMs: TIMEOUT_MS });
      });
      // One that has gone since is none any more.
      found.push(...(await Promise.all(some)).filter((object) => object !== undefined));
    }
    return found.toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
  });
  return { kind, objects };
}

async function readSources(
  client: Reader,
  targets: readonly TargetsReading[],
  scope: Scope,
): Promise<ReadonlyMap<string, Reading<SourceObject | undefined>>> {
  const refs = new Map<string, SourceRef>();
  for (const { kind, objects } of targets)
    for (const object of valueOf(objects) ?? [])
      for (const ref of sourcesOf(kind, object, scope)) refs.set(sourceName(ref), ref);
  const sources = new Map<string, Reading<SourceObject | undefined>>();
  for (const [key, { kind, namespace, name }] of refs) {
    const reading = await tryToRead(async () => {
      const resource = kind === 'Secret' ? secrets : configMaps;
      const source = await client.get<SourceObject & KubeObject>(
        resource,
        { namespace, name },
        { timeoutMs: TIMEOUT_MS },
      );
      return source === undefined ? undefined : toSourceObject(source);
    });
    sources.set(key, reading);
  }
  return sources;
}
