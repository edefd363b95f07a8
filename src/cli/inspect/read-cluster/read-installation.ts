/** Reads the further parts of a cluster that `gatehouse doctor` checks. Dry runs and access reviews change nothing. */
import type { AdmissionPolicy } from '../../../api/admission-policy.ts';
import type { ConversionPolicy } from '../../../api/conversion-policy.ts';
import { customResourceDefinitions as shippedDefinitions } from '../../../api/crds.ts';
import { GROUP } from '../../../api/group.ts';
import type { Condition, KubeObject, ObjectMeta } from '../../../json/kube-object.ts';
import type { RestoreDetector } from '../../../api/restore-detector.ts';
import type { RestoreWindow } from '../../../api/restore-window.ts';
import { WEBHOOK_CONFIGURATION_NAME } from '../../../admission/webhooks/webhook-configurations.ts';
import type { KubeClient } from '../../../kube/client.ts';
import type { LeaseObject } from '../../../kube/lease/lease-record.ts';
import type { Resource } from '../../../kube/object.ts';
import {
  apiServices,
  configMaps,
  customResourceDefinitions,
  leases,
  mutatingWebhookConfigurations,
  secrets,
  services,
  validatingWebhookConfigurations,
} from '../../../kube/well-known.ts';
import {
  CABUNDLE_CONFIGMAP,
  SERVING_CERT_LABEL,
  SERVING_SECRET,
  TLS_CERT_KEY,
} from '../../../pki/annotations.ts';
import type { RawTarget } from '../../../pki/injection/target.ts';
import type { ConfigMap } from '../../../runtime/certificates/ca-bundle.ts';
import {
  ADMISSION_POLICIES,
  CONVERSION_POLICIES,
  RESTORE_DETECTORS,
  RESTORE_WINDOWS,
} from '../../../runtime/resources.ts';
import type { UserCluster } from '../../connect.ts';
import { readAccess, readGovernedAccess, type Access, type GovernedKind } from './access.ts';
import { probeResult, probeWindow, resultOf, type ProbeResult } from './probe.ts';
import { INSTALLATION_NAME, type SharedReadings } from './read-cluster.ts';
import { createReader, mapReading, orEmpty, permissionTo, read, tryToRead, type Reading } from './reading.ts';

export interface Definition extends RawTarget {
  readonly spec?: NonNullable<RawTarget['spec']> & {
    readonly versions?: readonly {
      readonly name: string;
      readonly served: boolean;
      readonly schema?: { readonly openAPIV3Schema?: object };
    }[];
  };
  readonly status?: { readonly conditions?: readonly Pick<Condition, 'type' | 'status' | 'message'>[] };
}

export interface LiveService extends KubeObject {
  readonly spec?: {
    readonly type?: string;
    readonly ports?: readonly { readonly port: number; readonly targetPort?: number | string }[];
  };
}

export interface EndpointSlice extends KubeObject {
  readonly endpoints?: readonly {
    readonly addresses: readonly string[];
    /** Absent: ready. */
    readonly conditions?: { readonly ready?: boolean };
  }[];
  readonly ports?: readonly { readonly port?: number }[];
}

export interface LiveConfiguration extends RawTarget {
  readonly webhooks?: readonly (NonNullable<RawTarget['webhooks']>[number] & {
    readonly failurePolicy?: 'Fail' | 'Ignore';
  })[];
}

/** The metadata of an object that Gatehouse or another controller may manage. */
export interface Managed {
  readonly kind: string;
  readonly metadata: ObjectMeta & Pick<NonNullable<RawTarget['metadata']>, 'managedFields'>;
}

export interface Installation {
  readonly namespace: string;
  readonly serviceAccount: string;
}

export interface InstallationReadings extends Installation, SharedReadings {
  /** By the clock of the API server. */
  readonly now: Date;
  /** How far the local clock is ahead of the API server, in milliseconds; undefined: unknown. */
  readonly skewMs: number | undefined;
  /** The CRDs of Gatehouse, by name. */
  readonly definitions: Reading<ReadonlyMap<string, Definition>>;
  readonly access: Reading<Access>;
  readonly governed: Reading<Access<GovernedKind>>;
  readonly service: Reading<LiveService | undefined>;
  readonly slices: Reading<readonly EndpointSlice[]>;
  readonly mutating: Reading<LiveConfiguration | undefined>;
  readonly validating: Reading<LiveConfiguration | undefined>;
  readonly probe: Reading<ProbeResult>;
  /** The serving certificate of Gatehouse with its intermediates, PEM. */
  readonly chain: Reading<string | undefined>;
  /** The CRDs that ConversionPolicies name. */
  readonly converted: Reading<readonly Definition[]>;
  /** Services, CRDs, APIServices, webhook configurations and serving Secrets. */
  readonly managed: readonly Reading<readonly Managed[]>[];
  readonly conversions: Reading<readonly ConversionPolicy[]>;
  readonly detectors: Reading<readonly RestoreDetector[]>;
}

/** @param manifests the objects of `deploy/base` */
export async function readInstallation(
  cluster: Pick<UserCluster, 'client' | 'discovery' | 'now' | 'skewMs'>,
  { namespace, serviceAccount }: Installation,
  manifests: readonly KubeObject[],
): Promise<InstallationReadings> {
  const { client } = cluster;
  const account = { namespace, serviceAccount };
  const { get, list } = createReader(client);
  const [policies, conversions, detectors, windows] = await Promise.all([
    list<AdmissionPolicy>(ADMISSION_POLICIES).then(orEmpty),
    list<ConversionPolicy>(CONVERSION_POLICIES).then(orEmpty),
    list<RestoreDetector>(RESTORE_DETECTORS).then(orEmpty),
    list<RestoreWindow>(RESTORE_WINDOWS).then(orEmpty),
  ]);
  const configuration = { name: WEBHOOK_CONFIGURATION_NAME };
  const [definitions, access, governed, service, slices, mutating, validating, probe] = await Promise.all([
    readDefinitions(client),
    readAccess(client, account, manifests),
    readGovernedAccess(client, account, policies),
    get<LiveService>(services, { namespace, name: INSTALLATION_NAME }),
    readSlices(cluster, namespace),
    get<LiveConfiguration>(mutatingWebhookConfigurations, configuration),
    get<LiveConfiguration>(validatingWebhookConfigurations, configuration),
    probeWebhook(cluster, namespace),
  ]);
  const [caBundle, serving, converted, managed] = await Promise.all([
    get<ConfigMap>(configMaps, { namespace, name: CABUNDLE_CONFIGMAP }),
    get<WithData>(secrets, { namespace, name: SERVING_SECRET }),
    readConverted(client, conversions),
    Promise.all(MANAGED.map(({ resource, labelSelector }) => readManaged(client, resource, labelSelector))),
  ]);
  // Last: its age is compared with the current time.
  const lease = await get<LeaseObject>(leases, { namespace, name: INSTALLATION_NAME });
  return {
    ...{ namespace, serviceAccount, now: cluster.now(), skewMs: cluster.skewMs() },
    ...{ policies, conversions, detectors, windows, definitions, access, governed, service, slices },
    ...{ mutating, validating, probe, caBundle, converted, managed, lease },
    chain: mapReading(serving, (secret) => decoded(secret?.data?.[TLS_CERT_KEY])),
  };
}

interface WithData extends KubeObject {
  readonly data?: Readonly<Record<string, string>>;
}

const decoded = (base64: string | undefined): string | undefined =>
  base64 === undefined || base64 === '' ? undefined : Buffer.from(base64, 'base64').toString();

const readDefinitions = (
  client: Pick<KubeClient, 'get'>,
): Promise<Reading<ReadonlyMap<string, Definition>>> => {
  const names = shippedDefinitions().map(({ name }) => `${name}.${GROUP}`);
  return tryToRead(GET_DEFINITIONS, async () => new Map(await definitionsOf(client, names)));
};

async function readConverted(
  client: Pick<KubeClient, 'get'>,
  conversions: Reading<readonly ConversionPolicy[]>,
): Promise<Reading<readonly Definition[]>> {
  if (conversions.kind === 'unread') return conversions;
  const names = conversions.value.map(({ spec }) => `${spec.target.resource}.${spec.target.apiGroup}`);
  return await tryToRead(GET_DEFINITIONS, async () =>
    (await definitionsOf(client, names)).map(([, definition]) => definition),
  );
}

const GET_DEFINITIONS = permissionTo('get', customResourceDefinitions);

/** The CRDs that exist, each with its name. */
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

/** Without ConfigMaps: clusters have too many of them, and their `data` legitimately has many writers. */
const MANAGED: readonly { readonly resource: Resource; readonly labelSelector?: string }[] = [
  { resource: mutatingWebhookConfigurations },
  { resource: validatingWebhookConfigurations },
  { resource: customResourceDefinitions },
  { resource: apiServices },
  { resource: services },
  { resource: secrets, labelSelector: `${SERVING_CERT_LABEL.name}=${SERVING_CERT_LABEL.value}` },
];

const readManaged = (
  client: Pick<KubeClient, 'listAll'>,
  resource: Resource,
  labelSelector: string | undefined,
): Promise<Reading<readonly Managed[]>> =>
  tryToRead(permissionTo('list', resource), async () => {
    const { items } = await client.listAll(resource, { metadataOnly: true, labelSelector });
    return items.map(({ metadata = {} }) => ({ kind: resource.kind, metadata }));
  });

async function readSlices(
  { client, discovery }: Pick<UserCluster, 'client' | 'discovery'>,
  namespace: string,
): Promise<Reading<readonly EndpointSlice[]>> {
  const wanted = { group: 'discovery.k8s.io', resource: 'endpointslices' };
  return await tryToRead(permissionTo('list', wanted, namespace), async () => {
    // The API server serves v1 since Kubernetes 1.21, and v1beta1 before.
    const resource = await discovery.resolve(wanted);
    if (resource === undefined) throw new Error('this API server does not serve EndpointSlices');
    const labelSelector = `kubernetes.io/service-name=${INSTALLATION_NAME}`;
    return (await client.listAll<EndpointSlice>(resource, { namespace, labelSelector })).items;
  });
}

async function probeWebhook(
  { client, now }: Pick<UserCluster, 'client' | 'now'>,
  namespace: string,
): Promise<Reading<ProbeResult>> {
  try {
    const window = probeWindow(namespace, now());
    return read(resultOf(await client.create<RestoreWindow>(RESTORE_WINDOWS, window, { dryRun: true })));
  } catch (error) {
    return probeResult(error);
  }
}
