/** Leader: starts one injector for each kind that can carry a CA bundle. */
import { WEBHOOK_CONFIGURATION_NAME } from '../../admission/webhooks/webhook-configurations.ts';
import type { KubeClient } from '../../kube/client.ts';
import { keyOf } from '../../json/kube-object.ts';
import { type Resource } from '../../kube/object.ts';
import {
  apiServices,
  configMaps,
  customResourceDefinitions,
  mutatingWebhookConfigurations,
  validatingWebhookConfigurations,
} from '../../kube/well-known.ts';
import { CABUNDLE_CONFIGMAP } from '../../pki/annotations.ts';
import type { Authority } from '../../pki/authority/authority.ts';
import { rootOf } from '../../pki/authority/generation.ts';
import { sourceName, type SourceRef } from '../../pki/injection/request.ts';
import type { BundleState } from '../../pki/injection/source.ts';
import { TARGET_KINDS, toTarget, type InjectionTarget, type TargetKind } from '../../pki/injection/target.ts';
import type { CertificatePem } from '../../pki/x509/pem.ts';
import type { TrustEvidence } from '../certificates/rotation.ts';
import type { Context } from '../context.ts';
import { type RecordEvent, startController } from '../controller.ts';
import { createBundleSources } from './bundle-sources.ts';
import { createInjector, type InjectorContext } from './injector.ts';
import { createTargetStates, type TargetStates } from './target-states.ts';
import { targetsWithoutRoot, watchTargets, type TargetView } from './target-store.ts';

interface InjectionParts {
  readonly authority: () => Authority | undefined;
  readonly bundle: () => CertificatePem | undefined;
  readonly record: RecordEvent;
  /** The result of `targetsWithout` may have changed. */
  readonly onEvidence: () => void;
}

const RESOURCES: readonly (readonly [TargetKind, Resource])[] = [
  [TARGET_KINDS.mutating, mutatingWebhookConfigurations],
  [TARGET_KINDS.validating, validatingWebhookConfigurations],
  [TARGET_KINDS.customResourceDefinition, customResourceDefinitions],
  [TARGET_KINDS.apiService, apiServices],
  [TARGET_KINDS.configMap, configMaps],
];

/** ConfigMaps may ask for a bundle in each of a thousand namespaces. */
const WORKERS = 4;

type LeaderContext = Context & { readonly client: KubeClient };

export function startInjection(
  context: LeaderContext,
  { authority, bundle, record, onEvidence }: InjectionParts,
  signal: AbortSignal,
): Pick<TrustEvidence, 'targetsWithout'> & {
  readonly resync: () => void;
  readonly stopped: Promise<unknown>;
} {
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
  const options: InjectorOptions = {
    bundle: (source) =>
      source.kind === 'object' ? sources.bundle(source.ref, source.consent) : stateOf(bundle()),
    record,
    states: startStates(context, signal),
    onChange: (changed) => {
      if (changed.some((target) => refsOf(target).length > 0))
        sources.keepOnly(injectors.flatMap(({ view }) => view.targets().flatMap(refsOf)));
      onEvidence();
    },
  };
  const injectors = RESOURCES.map(([kind, resource]) =>
    startInjector(context, kind, resource, options, signal),
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

interface InjectorOptions extends Pick<InjectorContext, 'bundle' | 'record'> {
  readonly states: TargetStates;
  /** Relevant objects have changed: current and previous versions. Empty: the content of an unchanged one was read. */
  readonly onChange: (targets: readonly InjectionTarget[]) => void;
}

interface RunningInjector {
  readonly view: TargetView;
  readonly hasSynced: () => boolean;
  /** Reconciles the targets for which the filter returns true. */
  readonly resync: (filter: (target: InjectionTarget) => boolean) => void;
  readonly stopped: Promise<unknown>;
}

function startInjector(
  context: LeaderContext,
  kind: TargetKind,
  resource: Resource,
  { bundle, record, states, onChange }: InjectorOptions,
  signal: AbortSignal,
): RunningInjector {
  const { client, config, log } = context;
  const own =
    kind.kind === 'ConfigMap' ? `${config.namespace}/${CABUNDLE_CONFIGMAP}` : WEBHOOK_CONFIGURATION_NAME;
  const targets = watchTargets(
    context,
    {
      kind,
      resource,
      own,
      onTarget: (key, changed) => {
        controller.add(key);
        onChange(changed);
      },
      onContent: () => {
        onChange([]);
      },
    },
    signal,
  );
  const report: InjectorContext['report'] = (key, state) => {
    states.report(kind.kind, key, state);
  };
  const now = () => new Date();
  const reconcile = createInjector({ client, kind, resource, targets, bundle, report, record, now, log });
  const controller = startController(
    context,
    { name: `injector-${resource.resource}`, concurrency: WORKERS, reconcile },
    signal,
  );
  return {
    view: { kind, targets: targets.list, isOwn: (key) => key === own },
    hasSynced: targets.hasSynced,
    resync: (filter) => {
      for (const target of targets.asking().filter(filter)) controller.add(keyOf(target));
    },
    stopped: controller.stopped,
  };
}

function startStates({ metrics }: Context, signal: AbortSignal): TargetStates {
  const kinds = RESOURCES.map(([{ kind }]) => kind);
  const states = createTargetStates(kinds, () => performance.now());
  metrics.caBundles(states);
  signal.addEventListener('abort', () => {
    metrics.caBundles(undefined);
  });
  return states;
}

const stateOf = (pem: CertificatePem | undefined): BundleState =>
  pem === undefined ? { kind: 'unknown' } : { kind: 'bundle', pem };

const refsOf = ({ request }: InjectionTarget): readonly SourceRef[] =>
  request.kind === 'wanted' && request.source.kind === 'object' ? [request.source.ref] : [];

/** Clients copy Gatehouse's own ConfigMap. While it is missing, no client can have learnt of a new root from it. */
function withOwnConfigMap(view: TargetView, namespace: string): TargetView {
  if (view.kind.kind !== 'ConfigMap') return view;
  const absent = toTarget(view.kind, { metadata: { namespace, name: CABUNDLE_CONFIGMAP } }, []);
  return {
    ...view,
    targets: () => {
      const targets = view.targets();
      return targets.some((target) => view.isOwn(keyOf(target))) ? targets : [...targets, absent];
    },
  };
}
