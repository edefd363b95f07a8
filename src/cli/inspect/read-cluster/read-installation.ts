/** Reads the further parts of a cluster that `gatehouse doctor` checks. Dry runs and access reviews change nothing. */
import type { ConversionPolicy } from '../../../api/conversion-policy.ts';
import { customResourceDefinitions as shippedDefinitions } from '../../../api/crds.ts';
import { GROUP } from '../../../api/group.ts';
import type { PolicyException } from '../../../api/policy-exception.ts';
import { keyOf, type Condition, type KubeObject, type ObjectMeta } from '../../../json/kube-object.ts';
import type { RestoreDetector } from '../../../api/restore-detector.ts';
import { WEBHOOK_CONFIGURATION_NAME } from '../../../admission/webhooks/webhook-configurations.ts';
import { finalizerOf } from '../../../controllers/compile-controller.ts';
import type { LeaseObject } from '../../../kube/lease/lease-record.ts';
import type { Resource } from '../../../kube/object.ts';
import {
  apiServices,
  customResourceDefinitions,
  endpointSlices,
  leases,
  mutatingWebhookConfigurations,
  secrets,
  services,
  validatingWebhookConfigurations,
  deployments,
} from '../../../kube/well-known.ts';
import { SERVING_CERT_SELECTOR, SERVING_SECRET, TLS_CERT_KEY } from '../../../pki/annotations.ts';
import type { RawTarget } from '../../../pki/injection/target.ts';
import type { Secret } from '../../../pki/serving-certs/secret.ts';
import type { ConfigMap } from '../../../runtime/certificates/ca-bundle.ts';
import { parseState } from '../../../runtime/controllers/published.ts';
import type { Workload } from '../../../runtime/endpoints/restart-plan.ts';
import { SERVICE_NAME_LABEL, type EndpointSlice } from '../../../runtime/endpoints/slices.ts';
import { CONVERSION_POLICIES, POLICY_EXCEPTIONS, RESTORE_DETECTORS } from '../../../runtime/resources.ts';
import type { UserCluster } from '../../connect.ts';
import { readAccess, readGovernedAccess, readRestartAccess } from './access.ts';
import { probeWebhook } from './probe.ts';
import { INSTALLATION_NAME, readCluster } from './read-cluster.ts';
import {
  createReader,
  mapReading,
  orEmpty,
  presentAmong,
  read,
  readAll,
  tryToRead,
  valueOf,
  type Reader,
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

export interface LiveConfiguration extends RawTarget {
  readonly webhooks?: readonly (NonNullable<RawTarget['webhooks']>[number] & {
    readonly failurePolicy?: 'Fail' | 'Ignore';
  })[];
}

export interface Managed {
  readonly kind: string;
  readonly metadata: ObjectMeta & Pick<NonNullable<RawTarget['metadata']>, 'managedFields'>;
}

export type InstallationReadings = Awaited<ReturnType<typeof readInstallation>>;

export async function readInstallation(
  cluster: Pick<UserCluster, 'client' | 'discovery' | 'version' | 'now' | 'skewMs'>,
  { namespace, serviceAccount: named }: { readonly namespace: string; readonly serviceAccount?: string },
  manifests: readonly KubeObject[],
) {
  const { client } = cluster;
  const reader = createReader(client);
  const { get, list } = reader;
  const readings = await readCluster(client, { namespace });
  const { restrictions } = readings;
  const policies = orEmpty(readings.policies);
  const windows = orEmpty(readings.windows);
  const stored = await readAll({
    conversions: list<ConversionPolicy>(CONVERSION_POLICIES).then(orEmpty),
    detectors: list<RestoreDetector>(RESTORE_DETECTORS).then(orEmpty),
    exceptions: list<PolicyException>(POLICY_EXCEPTIONS).then(orEmpty),
  });
  const configuration = { name: WEBHOOK_CONFIGURATION_NAME };
  const running = await readDeployments(reader, namespace);
  const processes = accountsOf(running, named);
  const controllers =
    processes.find(({ needs }) => needs.includes(CONTROLLERS))?.serviceAccount ?? CONTROLLERS;
  const inUse = manifests.filter(
    ({ metadata }) => !restrictions.without.some((part) => metadata?.labels?.[PART_LABEL] === part),
  );
  const { definitions, ...installed } = await readAll({
    definitions: readDefinitions(
      reader,
      shippedDefinitions().map(({ name }) => `${name}.${GROUP}`),
    ),
    /** Empty with `--namespaces`, because RoleBindings then grant the permissions. */
    accounts: Promise.all(
      (restrictions.namespaces === undefined ? processes : []).map(async ({ serviceAccount, needs }) => {
        const account = { namespace, serviceAccount };
        const [access, governed] = await Promise.all([
          readAccess(client, account, inUse, needs),
          readGovernedAccess(client, account, policies),
        ]);
        return { serviceAccount, access, governed };
      }),
    ),
    service: get<LiveService>(services, { namespace, name: INSTALLATION_NAME }),
    slices: list<EndpointSlice>(endpointSlices, {
      namespace,
      labelSelector: `${SERVICE_NAME_LABEL}=${INSTALLATION_NAME}`,
    }),
    mutating: get<LiveConfiguration>(mutatingWebhookConfigurations, configuration),
    validating: get<LiveConfiguration>(validatingWebhookConfigurations, configuration),
    probe: probeWebhook(client, namespace, cluster.now()),
  });
  const { serving, ...further } = await readAll({
    serving: get<Secret>(secrets, { namespace, name: SERVING_SECRET }),
    finalized: readFinalized(reader, cluster.discovery, valueOf(readings.userControllers)),
    converted: readConverted(reader, stored.conversions),
    restarts: readRestartAccess(client, { namespace, serviceAccount: controllers }),
    managed: Promise.all(
      MANAGED.map(async ([resource, labelSelector]) =>
        mapReading(await list(resource, { metadataOnly: true, labelSelector }), (items): readonly Managed[] =>
          items.map(({ metadata = {} }) => ({ kind: resource.kind, metadata })),
        ),
      ),
    ),
  });
  // Last: its age is compared with the current time.
  const lease = await get<LeaseObject>(leases, { namespace, name: INSTALLATION_NAME });
  return {
    ...readings,
    namespace,
    version: cluster.version,
    now: cluster.now(),
    skewMs: cluster.skewMs(),
    ...stored,
    ...installed,
    ...further,
    policies,
    windows,
    lease,
    deployments: running,
    definitions: mapReading(
      definitions,
      (all): ReadonlyMap<string, Definition> => new Map(all.map((one) => [one.metadata?.name ?? '', one])),
    ),
    controllers,
    chain: mapReading(serving, (secret) => {
      const text = Buffer.from(secret?.data?.[TLS_CERT_KEY] ?? '', 'base64').toString();
      return text === '' ? undefined : text;
    }),
  };
}

const readDefinitions = async (
  { get }: Reader,
  names: readonly string[],
): Promise<Reading<readonly Definition[]>> =>
  presentAmong(await Promise.all(names.map((name) => get<Definition>(customResourceDefinitions, { name }))));

async function readConverted(
  reader: Reader,
  conversions: Reading<readonly ConversionPolicy[]>,
): Promise<Reading<readonly Definition[]>> {
  if (conversions.kind === 'unread') return conversions;
  const names = conversions.value.map(({ spec }) => `${spec.target.resource}.${spec.target.apiGroup}`);
  return await readDefinitions(reader, names);
}

const FINALIZER = finalizerOf('');
const MAX_FINALIZED_KINDS = 20;

/** Objects with the finalizer of a controller that doesn't exist, of the kinds of present and former controllers. */
async function readFinalized(
  { list }: Reader,
  discovery: UserCluster['discovery'],
  configMap: ConfigMap | undefined,
) {
  const { controllers, former, omitted } = parseState(configMap ?? {}) ?? NO_CONTROLLERS;
  if (omitted > 0) return [];
  const known = new Set(controllers.map(({ name }) => name));
  const kinds = new Set([...former, ...controllers].map(({ watches }) => watches));
  const reading = async (kind: string) => {
    const [resource = '', ...group] = kind.split('.');
    const found = await tryToRead({ verb: 'get', resource: 'apis' }, () =>
      discovery.resolve({ group: group.join('.'), resource }, AbortSignal.timeout(DISCOVERY_MS)),
    );
    if (found.kind === 'unread') return { kind, objects: found };
    const all = found.value === undefined ? read([]) : await list(found.value, { metadataOnly: true });
    const objects = mapReading(orEmpty(all), (items) =>
      items.flatMap((object) =>
        (object.metadata?.finalizers ?? [])
          .filter((one) => one.startsWith(FINALIZER) && !known.has(one.slice(FINALIZER.length)))
          .map((one) => ({ controller: one.slice(FINALIZER.length), object: keyOf(object) })),
      ),
    );
    return { kind, objects };
  };
  return await Promise.all([...kinds].slice(0, MAX_FINALIZED_KINDS).map(reading));
}

const NO_CONTROLLERS = { controllers: [], former: [], omitted: 0 };
const DISCOVERY_MS = 15_000;

/** Without ConfigMaps: clusters have too many of them, and their `data` legitimately has many writers. */
const MANAGED: readonly (readonly [resource: Resource, labelSelector?: string])[] = [
  [mutatingWebhookConfigurations],
  [validatingWebhookConfigurations],
  [customResourceDefinitions],
  [apiServices],
  [services],
  [secrets, SERVING_CERT_SELECTOR],
];

export interface Deployment extends Workload {
  readonly spec?: NonNullable<Workload['spec']> & {
    readonly template: {
      readonly spec: {
        readonly serviceAccountName?: string;
        readonly containers: readonly {
          readonly args?: readonly string[];
          readonly env?: readonly { readonly name: string }[];
        }[];
      };
    };
  };
  readonly status?: NonNullable<Workload['status']> & {
    readonly conditions?: readonly (Pick<Condition, 'type' | 'status'> & Partial<Condition>)[];
  };
}

const WEBHOOK = 'gatehouse-webhook';
const CONTROLLERS = 'gatehouse-controllers';
const SINGLE = 'gatehouse';

/** Each process as the accounts of deploy/base whose permissions it needs, by the name of its Deployment. */
const NEEDS = {
  [WEBHOOK]: [WEBHOOK],
  [CONTROLLERS]: [CONTROLLERS],
  [SINGLE]: [WEBHOOK, CONTROLLERS],
} as const;

export type DeploymentName = keyof typeof NEEDS;

const NAMES: readonly DeploymentName[] = [WEBHOOK, CONTROLLERS, SINGLE];

export type Deployments = ReadonlyMap<DeploymentName, Deployment>;

async function readDeployments({ get }: Reader, namespace: string): Promise<Reading<Deployments>> {
  const found = new Map<DeploymentName, Deployment>();
  for (const name of NAMES) {
    const reading = await get<Deployment>(deployments, { namespace, name });
    if (reading.kind === 'unread') return reading;
    if (reading.value !== undefined) found.set(name, reading.value);
  }
  return read(found);
}

/** @param named by the user, if Gatehouse runs elsewhere */
function accountsOf(
  running: Reading<Deployments>,
  named: string | undefined,
): readonly { readonly serviceAccount: string; readonly needs: readonly string[] }[] {
  if (named !== undefined) return [{ serviceAccount: named, needs: NEEDS[SINGLE] }];
  const found = valueOf(running);
  if (found === undefined)
    return [WEBHOOK, CONTROLLERS].map((name) => ({ serviceAccount: name, needs: [name] }));
  if (found.size === 0) return [{ serviceAccount: SINGLE, needs: NEEDS[SINGLE] }];
  return [...found].map(([name, { spec }]) => ({
    serviceAccount: spec?.template.spec.serviceAccountName ?? 'default',
    needs: NEEDS[name],
  }));
}
