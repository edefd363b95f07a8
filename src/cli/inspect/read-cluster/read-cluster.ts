/** Reads the parts of a cluster that `gatehouse status` and the status page show. Writes nothing. */
import type { AdmissionPolicy } from '../../../api/admission-policy.ts';
import type { RestoreWindow } from '../../../api/restore-window.ts';
import type { ConfigMap } from '../../../runtime/certificates/ca-bundle.ts';
import type { KubeClient } from '../../../kube/client.ts';
import type { LeaseObject } from '../../../kube/lease/lease-record.ts';
import type { Resource } from '../../../kube/object.ts';
import type { KubeObject } from '../../../json/kube-object.ts';
import { configMaps, leases, secrets, services as SERVICES } from '../../../kube/well-known.ts';
import {
  AUTHORITY_SECRET,
  CABUNDLE_CONFIGMAP,
  SERVING_CERT_SELECTOR,
  SERVING_SECRET,
} from '../../../pki/annotations.ts';
import { toStoredSecret, type StoredSecret } from '../../../pki/serving-certs/facts.ts';
import type { Secret } from '../../../pki/serving-certs/secret.ts';
import {
  propagationWaitOf,
  restrictionsOf,
  type Restrictions,
} from '../../../runtime/leadership/own-lease.ts';
import { SERVED_CERTS_CONFIGMAP } from '../../../runtime/endpoints/report.ts';
import { placesOf } from '../../../runtime/namespaces.ts';
import { ADMISSION_POLICIES, RESTORE_WINDOWS } from '../../../runtime/resources.ts';
import {
  isTarget,
  readSources,
  readTargets,
  readTrustBundle,
  type Scope,
  type SourceReadings,
  type TargetsReading,
} from './injection-targets.ts';
import { createReader, mapReading, read, valueOf, type Reading } from './reading.ts';

/** The parts that `gatehouse doctor` reads too. */
export interface SharedReadings {
  readonly lease: Reading<LeaseObject | undefined>;
  /** The ConfigMap with the published CA bundle. */
  readonly caBundle: Reading<ConfigMap | undefined>;
  readonly policies: Reading<readonly AdmissionPolicy[]>;
  readonly windows: Reading<readonly RestoreWindow[]>;
}

export interface ClusterReadings extends SharedReadings {
  /** As the leader noted them on the Lease. */
  readonly restrictions: Restrictions;
  /** How long a CA that all targets hold waits before it signs, in milliseconds. */
  readonly propagationWaitMs: number;
  readonly pods: Reading<readonly Pod[]>;
  /** Contains private keys: show only what {@link parseAuthority} makes public. */
  readonly authority: Reading<Secret | undefined>;
  /** The ConfigMap with the certificates that servers present. */
  readonly servedCerts: Reading<ConfigMap | undefined>;
  readonly servingSecrets: Reading<readonly StoredSecret[]>;
  /** Only their metadata. */
  readonly services: Reading<readonly KubeObject[]>;
  readonly targets: readonly TargetsReading[];
  readonly sources: SourceReadings;
}

/** The fields of a Pod that are shown. */
export interface Pod extends KubeObject {
  readonly spec?: {
    readonly nodeName?: string;
    readonly containers?: readonly { readonly image?: string }[];
  };
  readonly status?: {
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
    readonly containerStatuses?: readonly {
      readonly restartCount?: number;
      readonly state?: { readonly waiting?: { readonly reason?: string; readonly message?: string } };
      readonly lastState?: {
        readonly terminated?: {
          readonly exitCode: number;
          readonly reason?: string;
          readonly message?: string;
        };
      };
    }[];
  };
}

/** Why a container of the pod does not run, in the kubelet's words, with its last exit and the last error of its log; undefined: it runs. */
export function waitingFor({ status }: Pod): string | undefined {
  const { state, lastState } =
    status?.containerStatuses?.find((one) => one.state?.waiting !== undefined) ?? {};
  const { reason = '', message } = state?.waiting ?? {};
  if (reason === '' || reason === 'ContainerCreating' || reason === 'PodInitializing') return undefined;
  const last = lastState?.terminated;
  if (last === undefined) return message === undefined ? reason : `${reason}: ${message}`;
  const lines = (last.message ?? '').trimEnd().split('\n');
  const line = lines.findLast((one) => /error|fatal/i.test(one)) ?? lines.at(-1) ?? '';
  const exit = `${reason}: it ended with exit code ${last.exitCode} (${last.reason ?? 'unknown'})`;
  return line === '' ? exit : `${exit}: ${line}`;
}

/** The name of the Service and the Lease of Gatehouse, in any namespace. */
export const INSTALLATION_NAME = 'gatehouse';

/** One slow part must not delay the others for long. */
const TIMEOUT_MS = 15_000;
const PODS: Resource = { group: '', version: 'v1', resource: 'pods', kind: 'Pod', namespaced: true };

/** The pods of both Deployments, and of the one of `gatehouse serve`. */
const POD_SELECTOR = 'app.kubernetes.io/name in (gatehouse,gatehouse-controllers)';

export async function readCluster(
  client: Pick<KubeClient, 'get' | 'listAll'>,
  scope: Scope,
): Promise<ClusterReadings> {
  const { namespace } = scope;
  const { get, list } = createReader(client, TIMEOUT_MS);
  const lease = await get<LeaseObject>(leases, { namespace, name: INSTALLATION_NAME });
  const restrictions = restrictionsOf(valueOf(lease));
  const { without, namespaces } = restrictions;
  const isOff = without.includes('certificates');
  const certificates = isOff ? { namespace, fieldSelector: `metadata.name=${SERVING_SECRET}` } : {};
  const [
    pods,
    authority,
    caBundle,
    servedCerts,
    servingSecrets,
    services,
    annotated,
    own,
    policies,
    windows,
  ] = await Promise.all([
    list<Pod>(PODS, { namespace, labelSelector: POD_SELECTOR }),
    get<Secret>(secrets, { namespace, name: AUTHORITY_SECRET }),
    get<ConfigMap>(configMaps, { namespace, name: CABUNDLE_CONFIGMAP }),
    get<ConfigMap>(configMaps, { namespace, name: SERVED_CERTS_CONFIGMAP }),
    listIn<Secret>(list, secrets, namespaces, { ...certificates, labelSelector: SERVING_CERT_SELECTOR }),
    isOff ? read([]) : listIn(list, SERVICES, namespaces, { metadataOnly: true }),
    readTargets(client, isTarget(scope), TIMEOUT_MS, restrictions, namespace),
    without.includes('injection') ? undefined : readTrustBundle(client, TIMEOUT_MS),
    list<AdmissionPolicy & KubeObject>(ADMISSION_POLICIES),
    without.includes('restores') ? read([]) : list<RestoreWindow & KubeObject>(RESTORE_WINDOWS),
  ]);
  const targets = [...annotated, ...(own === undefined ? [] : [own])];
  return {
    ...{ restrictions, lease, pods, authority, caBundle, servedCerts, services, targets, policies, windows },
    propagationWaitMs: propagationWaitOf(valueOf(lease)),
    // Keeps no private key: only whether the key fits the certificate.
    servingSecrets: mapReading(servingSecrets, (items) => items.map(toStoredSecret)),
    sources: await readSources(client, targets, scope, TIMEOUT_MS),
  };
}

type List = ReturnType<typeof createReader>['list'];

/** One failed list fails all: a part of the objects would look like all. */
async function listIn<T extends KubeObject>(
  list: List,
  resource: Resource,
  namespaces: Restrictions['namespaces'],
  options: Parameters<List>[1],
): Promise<Reading<readonly T[]>> {
  const places = options?.namespace === undefined ? placesOf(resource, namespaces) : [options.namespace];
  const lists = await Promise.all(places.map((namespace) => list<T>(resource, { ...options, namespace })));
  return lists.find(({ kind }) => kind === 'unread') ?? read(lists.flatMap((one) => valueOf(one) ?? []));
}
