/** Reads what the checks judge. Nothing is written: dry runs and access reviews leave nothing behind. */
import type { AdmissionPolicy } from '../../../api/admission-policy.ts';
import type { ConversionPolicy } from '../../../api/conversion-policy.ts';
import type { RestoreDetector } from '../../../api/restore-detector.ts';
import type { RestoreWindow } from '../../../api/restore-window.ts';
import type { LeaseObject } from '../../../kube/lease-record.ts';
import { groupResourceName, type KubeObject } from '../../../json/kube-object.ts';
import type { NamedRef, Resource } from '../../../kube/object.ts';
import {
  configMaps,
  leases,
  mutatingWebhookConfigurations,
  secrets,
  services,
  validatingWebhookConfigurations,
} from '../../../kube/well-known.ts';
import { CA_BUNDLE_KEY, CABUNDLE_CONFIGMAP, SERVING_SECRET, TLS_CERT_KEY } from '../../../pki/annotations.ts';
import { WEBHOOK_CONFIGURATION_NAME } from '../../../admission/webhooks/webhook-configurations.ts';
import {
  ADMISSION_POLICIES,
  CONVERSION_POLICIES,
  RESTORE_DETECTORS,
  RESTORE_WINDOWS,
} from '../../../runtime/resources.ts';
import type { UserCluster } from '../../user-cluster.ts';
import type { EndpointSlice, Evidence, LiveConfiguration, LiveService } from './evidence.ts';
import { gatherAccess, gatherGoverned, type Asker } from './gather-access.ts';
import { gatherClaimed, gatherConverted, gatherDefinitions } from './gather-kinds.ts';
import { look, type Look } from './look.ts';
import { answerFrom, answerOf, probeWindow, type ProbeAnswer } from './probe.ts';

export interface Install {
  readonly namespace: string;
  readonly serviceAccount: string;
  /** What `deploy/base` puts into a cluster. */
  readonly manifests: readonly KubeObject[];
}

/** The Service and the Lease of an installation bear this name, wherever it is. */
const NAME = 'gatehouse';

export async function gather(
  cluster: Pick<UserCluster, 'client' | 'discovery' | 'now' | 'skewMs'>,
  install: Install,
): Promise<Evidence> {
  const { client, now, skewMs } = cluster;
  const { namespace, serviceAccount } = install;
  const asker: Asker = { client, namespace, serviceAccount };
  const get = <T extends KubeObject>(resource: Resource, ref: NamedRef): Promise<Look<T | undefined>> =>
    look(permissionFor('get', resource, ref.namespace), () => client.get<T>(resource, ref));
  const list = <T extends KubeObject>(resource: Resource): Promise<Look<readonly T[]>> =>
    look(permissionFor('list', resource), async () => (await client.listAll<T>(resource)).items, []);

  const [policies, conversions, detectors, windows] = await Promise.all([
    list<AdmissionPolicy>(ADMISSION_POLICIES),
    list<ConversionPolicy>(CONVERSION_POLICIES),
    list<RestoreDetector>(RESTORE_DETECTORS),
    list<RestoreWindow>(RESTORE_WINDOWS),
  ]);
  const configuration = { name: WEBHOOK_CONFIGURATION_NAME };
  const [definitions, access, governed, service, slices, mutating, validating, probe] = await Promise.all([
    gatherDefinitions(client),
    gatherAccess(asker, install.manifests),
    gatherGoverned(asker, policies),
    get<LiveService>(services, { namespace, name: NAME }),
    gatherSlices(cluster, namespace),
    get<LiveConfiguration>(mutatingWebhookConfigurations, configuration),
    get<LiveConfiguration>(validatingWebhookConfigurations, configuration),
    askGatehouse(cluster, namespace),
  ]);
  const [bundle, chain, converted, claimed] = await Promise.all([
    get<WithData>(configMaps, { namespace, name: CABUNDLE_CONFIGMAP }),
    get<WithData>(secrets, { namespace, name: SERVING_SECRET }),
    gatherConverted(client, conversions),
    gatherClaimed(client),
  ]);
  // Last, so that its age is that of now.
  const lease = await get<LeaseObject>(leases, { namespace, name: NAME });
  return {
    ...{
      now: now(),
      skewMs: skewMs(),
      namespace,
      serviceAccount,
      definitions,
      access,
      governed,
      service,
      slices,
    },
    ...{ mutating, validating, probe, converted, claimed, lease, policies, conversions, detectors, windows },
    bundle: map(bundle, (object) => object?.data?.[CA_BUNDLE_KEY]),
    chain: map(chain, (object) => decoded(object?.data?.[TLS_CERT_KEY])),
  };
}

interface WithData extends KubeObject {
  readonly data?: Readonly<Record<string, string>>;
}

const decoded = (base64: string | undefined): string | undefined =>
  base64 === undefined || base64 === '' ? undefined : Buffer.from(base64, 'base64').toString();

const map = <T, U>(looked: Look<T>, change: (value: T) => U): Look<U> =>
  looked.kind === 'seen' ? { kind: 'seen', value: change(looked.value) } : looked;

const permissionFor = (verb: string, resource: Resource, namespace?: string) => ({
  verb,
  resource: groupResourceName(resource),
  ...(namespace === undefined ? {} : { namespace }),
});

/** In the version that this API server has: v1 from 1.21 on. */
async function gatherSlices(
  { client, discovery }: Pick<UserCluster, 'client' | 'discovery'>,
  namespace: string,
): Promise<Look<readonly EndpointSlice[]>> {
  const wanted = { group: 'discovery.k8s.io', resource: 'endpointslices' };
  return await look({ verb: 'list', resource: groupResourceName(wanted), namespace }, async () => {
    const resource = await discovery.resolve(wanted);
    if (resource === undefined) throw new Error('this API server has no EndpointSlices');
    const labelSelector = `kubernetes.io/service-name=${NAME}`;
    return (await client.listAll<EndpointSlice>(resource, { namespace, labelSelector })).items;
  });
}

async function askGatehouse(
  { client, now }: Pick<UserCluster, 'client' | 'now'>,
  namespace: string,
): Promise<Look<ProbeAnswer>> {
  try {
    const window = await client.create<RestoreWindow>(RESTORE_WINDOWS, probeWindow(namespace, now()), {
      dryRun: true,
    });
    return { kind: 'seen', value: answerOf(window) };
  } catch (error) {
    return answerFrom(error);
  }
}
