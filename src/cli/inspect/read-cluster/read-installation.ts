/** Reads the further parts of a cluster that `gatehouse doctor` checks. Dry runs and access reviews change nothing. */
import type { AdmissionPolicy } from '../../../api/admission-policy.ts';
import type { ConversionPolicy } from '../../../api/conversion-policy.ts';
import { customResourceDefinitions as shippedDefinitions } from '../../../api/crds.ts';
import { GROUP } from '../../../api/group.ts';
import type { PolicyException } from '../../../api/policy-exception.ts';
import type { Condition, KubeObject, ObjectMeta } from '../../../json/kube-object.ts';
import type { RestoreDetector } from '../../../api/restore-detector.ts';
import type { RestoreWindow } from '../../../api/restore-window.ts';
import { WEBHOOK_CONFIGURATION_NAME } from '../../../admission/webhooks/webhook-configurations.ts';
import type { KubeClient } from '../../../kube/client.ts';
import type { ServerVersion } from '../../../kube/discovery.ts';
import type { LeaseObject } from '../../../kube/lease/lease-record.ts';
import type { Resource } from '../../../kube/object.ts';
import {
  apiServices,
  configMaps,
  customResourceDefinitions,
  endpointSlices,
  leases,
  mutatingWebhookConfigurations,
  secrets,
  services,
  validatingWebhookConfigurations,
} from '../../../kube/well-known.ts';
import {
  CABUNDLE_CONFIGMAP,
  SERVING_CERT_SELECTOR,
  SERVING_SECRET,
  TLS_CERT_KEY,
} from '../../../pki/annotations.ts';
import type { RawTarget } from '../../../pki/injection/target.ts';
import type { Secret } from '../../../pki/serving-certs/secret.ts';
import type { ConfigMap } from '../../../runtime/certificates/ca-bundle.ts';
import { restrictionsOf, type Restrictions } from '../../../runtime/leadership/own-lease.ts';
import {
  ADMISSION_POLICIES,
  CONVERSION_POLICIES,
  POLICY_EXCEPTIONS,
  RESTORE_DETECTORS,
  RESTORE_WINDOWS,
} from '../../../runtime/resources.ts';
import type { UserCluster } from '../../connect.ts';
import { readAccess, readGovernedAccess, type Access, type GovernedKind } from './access.ts';
import { accountsOf, controllersAmong, readDeployments, type Deployments } from './processes.ts';
import { probeResult, probeWindow, resultOf, type ProbeResult } from './probe.ts';
import { INSTALLATION_NAME, readCluster, type ClusterReadings, type SharedReadings } from './read-cluster.ts';
import { readRestartAccess, type RestartPlace } from './restart-access.ts';
import {
  createReader,
  mapReading,
  orEmpty,
  permissionTo,
  read,
  tryToRead,
  valueOf,
  type Reading,
} from './reading.ts';

/** On the roles in `deploy/` that only one part needs. */
export const PART_LABEL = 'gatehouse.dev/part';

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

/** What the account of a process may do. */
export interface AccountReadings {
  readonly serviceAccount: string;
  readonly access: Reading<Access>;
  readonly governed: Reading<Access<GovernedKind>>;
}

export interface InstallationReadings extends SharedReadings {
  /** What `gatehouse status` reads too. */
  readonly cluster: ClusterReadings;
  readonly version: ServerVersion;
  readonly namespace: string;
  /** By the clock of the API server. */
  readonly now: Date;
  /** As the leader noted them on the Lease. */
  readonly restrictions: Restrictions;
  /** How far the local clock is ahead of the API server, in milliseconds; undefined: unknown. */
  readonly skewMs: number | undefined;
  /** The CRDs of Gatehouse, by name. */
  readonly definitions: Reading<ReadonlyMap<string, Definition>>;
  /** None with `--namespaces`: RoleBindings grant then what ClusterRoleBindings grant otherwise. */
  readonly accounts: readonly AccountReadings[];
  /** The account of the controllers. */
  readonly controllers: string;
  readonly restarts: Reading<Access<RestartPlace>>;
  readonly service: Reading<LiveService | undefined>;
  readonly slices: Reading<readonly EndpointSlice[]>;
  readonly deployments: Reading<Deployments>;
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
  readonly exceptions: Reading<readonly PolicyException[]>;
}

/** @param manifests the objects of `deploy/base` */
export async function readInstallation(
  cluster: Pick<UserCluster, 'client' | 'version' | 'now' | 'skewMs'>,
  { namespace, serviceAccount: named }: { readonly namespace: string; readonly serviceAccount?: string },
  manifests: readonly KubeObject[],
): Promise<InstallationReadings> {
  const { client } = cluster;
  const { get, list } = createReader(client);
  const restrictions = restrictionsOf(
    valueOf(await get<LeaseObject>(leases, { namespace, name: INSTALLATION_NAME })),
  );
  const [policies, conversions, detectors, windows, exceptions] = await Promise.all([
    list<AdmissionPolicy>(ADMISSION_POLICIES).then(orEmpty),
    list<ConversionPolicy>(CONVERSION_POLICIES).then(orEmpty),
    list<RestoreDetector>(RESTORE_DETECTORS).then(orEmpty),
    list<RestoreWindow>(RESTORE_WINDOWS).then(orEmpty),
    list<PolicyException>(POLICY_EXCEPTIONS).then(orEmpty),
  ]);
  const configuration = { name: WEBHOOK_CONFIGURATION_NAME };
  const running = await readDeployments(get, namespace);
  const processes = accountsOf(running, named);
  const controllers = controllersAmong(processes);
  const [definitions, accounts, service, slices, mutating, validating, probe] = await Promise.all([
    readDefinitions(
      client,
      shippedDefinitions().map(({ name }) => `${name}.${GROUP}`),
    ),
    Promise.all(
      (restrictions.namespaces === undefined ? processes : []).map(async ({ serviceAccount, needs }) => {
        const account = { namespace, serviceAccount };
        const [access, governed] = await Promise.all([
          readAccess(client, account, withoutParts(manifests, restrictions.without), needs),
          readGovernedAccess(client, account, policies),
        ]);
        return { serviceAccount, access, governed };
      }),
    ),
    get<LiveService>(services, { namespace, name: INSTALLATION_NAME }),
    readSlices(cluster, namespace),
    get<LiveConfiguration>(mutatingWebhookConfigurations, configuration),
    get<LiveConfiguration>(validatingWebhookConfigurations, configuration),
    probeWebhook(cluster, namespace),
  ]);
  const [caBundle, serving, converted, restarts, managed] = await Promise.all([
    get<ConfigMap>(configMaps, { namespace, name: CABUNDLE_CONFIGMAP }),
    get<Secret>(secrets, { namespace, name: SERVING_SECRET }),
    readConverted(client, conversions),
    readRestartAccess(client, { namespace, serviceAccount: controllers }),
    Promise.all(
      MANAGED.map(([resource, labelSelector]) =>
        tryToRead(permissionTo('list', resource), async () => {
          const { items } = await client.listAll(resource, { metadataOnly: true, labelSelector });
          return items.map(({ metadata = {} }) => ({ kind: resource.kind, metadata }));
        }),
      ),
    ),
  ]);
  const readings = await readCluster(client, { namespace, compat: [] });
  // Last: its age is compared with the current time.
  const lease = await get<LeaseObject>(leases, { namespace, name: INSTALLATION_NAME });
  return {
    cluster: readings,
    version: cluster.version,
    ...{ namespace, restrictions, now: cluster.now(), skewMs: cluster.skewMs() },
    ...{
      policies,
      conversions,
      detectors,
      windows,
      exceptions,
      definitions,
      accounts,
      controllers,
      service,
      slices,
    },
    ...{ mutating, validating, probe, caBundle, converted, restarts, managed, lease, deployments: running },
    chain: mapReading(serving, (secret) => {
      const text = Buffer.from(secret?.data?.[TLS_CERT_KEY] ?? '', 'base64').toString();
      return text === '' ? undefined : text;
    }),
  };
}

/** Leaves out the roles of parts that do not run. */
export const withoutParts = (
  manifests: readonly KubeObject[],
  without: Restrictions['without'],
): readonly KubeObject[] =>
  manifests.filter(({ metadata }) => !without.some((part) => metadata?.labels?.[PART_LABEL] === part));

/** The CRDs that exist, by name. */
const readDefinitions = (
  client: Pick<KubeClient, 'get'>,
  names: readonly string[],
): Promise<Reading<ReadonlyMap<string, Definition>>> =>
  tryToRead(permissionTo('get', customResourceDefinitions), async () => {
    const found = await Promise.all(
      names.map(async (name) => {
        const definition = await client.get<Definition>(customResourceDefinitions, { name });
        return definition === undefined ? [] : [[name, definition] as const];
      }),
    );
    return new Map(found.flat());
  });

async function readConverted(
  client: Pick<KubeClient, 'get'>,
  conversions: Reading<readonly ConversionPolicy[]>,
): Promise<Reading<readonly Definition[]>> {
  if (conversions.kind === 'unread') return conversions;
  const names = conversions.value.map(({ spec }) => `${spec.target.resource}.${spec.target.apiGroup}`);
  return mapReading(await readDefinitions(client, names), (found) => [...found.values()]);
}

/** Without ConfigMaps: clusters have too many of them, and their `data` legitimately has many writers. */
const MANAGED: readonly (readonly [resource: Resource, labelSelector?: string])[] = [
  [mutatingWebhookConfigurations],
  [validatingWebhookConfigurations],
  [customResourceDefinitions],
  [apiServices],
  [services],
  [secrets, SERVING_CERT_SELECTOR],
];

async function readSlices(
  { client }: Pick<UserCluster, 'client'>,
  namespace: string,
): Promise<Reading<readonly EndpointSlice[]>> {
  return await tryToRead(permissionTo('list', endpointSlices, namespace), async () => {
    const labelSelector = `kubernetes.io/service-name=${INSTALLATION_NAME}`;
    return (await client.listAll<EndpointSlice>(endpointSlices, { namespace, labelSelector })).items;
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
