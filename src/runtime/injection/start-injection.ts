/** Leader: CA bundles in the objects that ask for one. */
import { WEBHOOK_CONFIGURATION_NAME } from '../../admission/webhooks/webhook-configurations.ts';
import { objectKey } from '../../json/kube-object.ts';
import { targetsWithoutRoot, type TargetView } from './injection-evidence.ts';
import { createInjectionLedger, type InjectionLedger } from './injection-ledger.ts';
import type { RecordEvent } from '../controller.ts';
import type { TrustEvidence } from '../certificates/trust-evidence.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Resource } from '../../kube/object.ts';
import {
  apiServices,
  configMaps,
  customResourceDefinitions,
  mutatingWebhookConfigurations,
  validatingWebhookConfigurations,
} from '../../kube/well-known.ts';
import { CABUNDLE_CONFIGMAP } from '../../pki/annotations.ts';
import { rootOf } from '../../pki/authority/generation.ts';
import { sourceName, type SourceRef } from '../../pki/injection/request.ts';
import type { BundleState } from '../../pki/injection/source.ts';
import { TARGET_KINDS, toTarget, type InjectionTarget, type TargetKind } from '../../pki/injection/target.ts';
import type { CertificatePem } from '../../pki/x509/pem.ts';
import type { Context } from '../context.ts';
import type { RunningAuthority } from '../certificates/start-authority.ts';
import { createBundleSources } from './bundle-sources.ts';
import type { Derived } from '../certificates/derived.ts';
import { startInjector, type InjectorOptions, type RunningInjector } from './start-injector.ts';

interface InjectionParts extends Pick<RunningAuthority, 'authority' | 'bundle'> {
  readonly record: RecordEvent;
  /** What `targetsWithout` says may have changed. */
  readonly onEvidence: () => void;
}

const RESOURCES: readonly (readonly [TargetKind, Resource])[] = [
  [TARGET_KINDS.mutating, mutatingWebhookConfigurations],
  [TARGET_KINDS.validating, validatingWebhookConfigurations],
  [TARGET_KINDS.customResourceDefinition, customResourceDefinitions],
  [TARGET_KINDS.apiService, apiServices],
  [TARGET_KINDS.configMap, configMaps],
];

type LeaderContext = Context & { readonly client: KubeClient };

export function startInjection(
  context: LeaderContext,
  { authority, bundle, record, onEvidence }: InjectionParts,
  signal: AbortSignal,
): Derived & Pick<TrustEvidence, 'targetsWithout'> {
  const resync = (filter: (target: InjectionTarget) => boolean) => {
    for (const injector of injectors) injector.resync(filter);
  };
  const sources = createBundleSources(
    context,
    (changed) => {
      resync((target) => refsOf(target).some((ref) => sourceName(ref) === sourceName(changed)));
    },
    signal,
  );
  const injectors = startInjectors(
    context,
    {
      bundle: (source) =>
        source.kind === 'object' ? sources.bundle(source.ref, source.consent) : stateOf(bundle()),
      record,
      onChange: (changed) => {
        if (changed.some((target) => refsOf(target).length > 0))
          sources.keepOnly(injectors.flatMap(({ view }) => view.targets().flatMap(refsOf)));
        onEvidence();
      },
    },
    signal,
  );
  const views = injectors.map(({ view }) => withOwnConfigMap(view, context.config.namespace));

  return {
    resync: () => {
      resync(() => true);
    },
    targetsWithout: (id) => {
      const generation = authority()?.generations.find((one) => one.id === id);
      if (generation === undefined || !injectors.every(({ hasSynced }) => hasSynced())) return undefined;
      return targetsWithoutRoot(views, rootOf(generation).fingerprint256);
    },
    stopped: Promise.all(injectors.map(({ stopped }) => stopped)),
  };
}

/** One a kind. */
function startInjectors(
  context: LeaderContext,
  options: Pick<InjectorOptions, 'bundle' | 'record' | 'onChange'>,
  signal: AbortSignal,
): readonly RunningInjector[] {
  const { namespace } = context.config;
  const ledger = startLedger(context, signal);
  return RESOURCES.map(([kind, resource]) =>
    startInjector(
      context,
      {
        ...options,
        kind,
        resource,
        own: kind.kind === 'ConfigMap' ? `${namespace}/${CABUNDLE_CONFIGMAP}` : WEBHOOK_CONFIGURATION_NAME,
        report: (key, state) => {
          ledger.report(kind.kind, key, state);
        },
      },
      signal,
    ),
  );
}

function startLedger({ metrics }: Context, signal: AbortSignal): InjectionLedger {
  const kinds = RESOURCES.map(([{ kind }]) => kind);
  const ledger = createInjectionLedger(kinds, () => performance.now());
  metrics.caBundles(ledger);
  signal.addEventListener('abort', () => {
    metrics.caBundles(undefined);
  });
  return ledger;
}

const stateOf = (pem: CertificatePem | undefined): BundleState =>
  pem === undefined ? { kind: 'unknown' } : { kind: 'bundle', pem };

const refsOf = ({ request }: InjectionTarget): readonly SourceRef[] =>
  request.kind === 'wanted' && request.source.kind === 'object' ? [request.source.ref] : [];

/** Others copy our ConfigMap. While it is not there, nobody has learnt of a new root from it. */
function withOwnConfigMap(view: TargetView, namespace: string): TargetView {
  if (view.kind.kind !== 'ConfigMap') return view;
  const absent = toTarget(view.kind, { metadata: { namespace, name: CABUNDLE_CONFIGMAP } }, []);
  return {
    ...view,
    targets: () => {
      const targets = view.targets();
      const isThere = targets.some(({ metadata }) => view.isOwn(objectKey(metadata ?? {})));
      return isThere ? targets : [...targets, absent];
    },
  };
}
