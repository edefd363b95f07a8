/** Leader: the running injectors, and what their targets tell the sources, the evidence for rotations and the metrics. */
import { WEBHOOK_CONFIGURATION_NAME } from '../../admission/webhooks/webhook-configurations.ts';
import { keyOf } from '../../json/kube-object.ts';
import type { Resource } from '../../kube/object.ts';
import { CABUNDLE_CONFIGMAP, TRUST_BUNDLE } from '../../pki/annotations.ts';
import { sourcesOf, type SourceRef, type TargetKindName } from '../../pki/injection/request.ts';
import type { SourceDemand } from '../../pki/injection/source-quota.ts';
import type { InjectionTarget, TargetKind } from '../../pki/injection/target.ts';
import { startController, type LeaderContext } from '../controller.ts';
import type { createBundleSources } from './bundle-sources.ts';
import { createInjector, type InjectorContext } from './injector.ts';
import type { createRootEvidence, TargetTrust } from './root-evidence.ts';
import type { TargetStates } from './target-states.ts';
import { watchTargets } from './target-store.ts';

/** ConfigMaps may ask for a bundle in each of a thousand namespaces. */
const WORKERS = 4;

interface Told {
  readonly sources: Pick<ReturnType<typeof createBundleSources>, 'bundle' | 'keepOnly'>;
  readonly evidence: Pick<ReturnType<typeof createRootEvidence>, 'set' | 'contend'>;
  readonly states: Pick<TargetStates, 'report'>;
}

export type Injector = ReturnType<typeof startInjector>;
export type Injectors = ReturnType<typeof createInjectors>;

export function createInjectors(context: LeaderContext, { sources, evidence, states }: Told) {
  const running: Injector[] = [];
  const keepSources = oncePerTick(() =>
    sources.keepOnly(running.flatMap(({ targets }) => targets.asking().flatMap(demandsOf))),
  );
  const hooks = {
    onTarget: (changed: readonly InjectionTarget[]) => {
      if (changed.some((target) => refsOf(target).length > 0)) keepSources();
    },
    onTrust: evidence.set,
  };
  const report: TargetStates['report'] = (kind, key, state) => {
    states.report(kind, key, state);
    evidence.contend(targetName(kind, key), state === 'contended');
  };
  const injection = { bundle: sources.bundle, record: context.record, states: { report } };
  return {
    running: (): readonly Injector[] => running,
    /** @param onListing the state of the list of targets has changed */
    start: (kind: TargetKind, resource: Resource, onListing: () => void, signal: AbortSignal): Injector => {
      const injector = startInjector(context, kind, resource, injection, { ...hooks, onListing }, signal);
      running.push(injector);
      return injector;
    },
    /** The injector has stopped, because the API server no longer serves its kind. Its only target was `name`. */
    drop: (injector: Injector, kind: TargetKindName, name: string): void => {
      running.splice(running.indexOf(injector), 1);
      evidence.set(targetName(kind, name), undefined);
      report(kind, name, undefined);
    },
    resync: (isAffected: (target: InjectionTarget) => boolean): void => {
      for (const { targets, add } of running)
        for (const target of targets.asking().filter(isAffected)) add(keyOf(target));
    },
  };
}

function startInjector(
  context: LeaderContext,
  kind: TargetKind,
  resource: Resource,
  injection: Pick<InjectorContext, 'bundle' | 'record' | 'states'>,
  hooks: {
    readonly onTarget: (changed: readonly InjectionTarget[]) => void;
    readonly onTrust: (name: string, trust: TargetTrust | undefined) => void;
    readonly onListing: () => void;
  },
  signal: AbortSignal,
) {
  const { client, config, log } = context;
  const own =
    kind.kind === 'ConfigMap'
      ? { namespace: config.namespace, name: CABUNDLE_CONFIGMAP }
      : { name: kind.kind === 'ClusterTrustBundle' ? TRUST_BUNDLE : WEBHOOK_CONFIGURATION_NAME };
  const onTarget = (key: string, changed: readonly InjectionTarget[]) => {
    controller.add(key);
    hooks.onTarget(changed);
  };
  const onTrust = (key: string, trust: TargetTrust | undefined) =>
    hooks.onTrust(targetName(kind.kind, key), trust);
  const { onListing } = hooks;
  const targets = watchTargets(context, kind, resource, own, { onTarget, onTrust, onListing }, signal);
  const now = () => new Date();
  const reconcile = createInjector({ ...injection, client, kind, resource, targets, now, log });
  const controller = startController(
    context,
    { name: `injector-${resource.resource}`, concurrency: WORKERS, reconcile },
    signal,
  );
  return { ...controller, targets, resource };
}

/** A list reports thousands of targets at once, and each pass reads all of them. */
function oncePerTick(pass: () => void): () => void {
  let isDue = false;
  return () => {
    if (isDue) return;
    isDue = true;
    setImmediate(() => {
      isDue = false;
      pass();
    });
  };
}

const targetName = (kind: TargetKindName, key: string): string => `${kind} ${key}`;

const refsOf = ({ request }: InjectionTarget): readonly SourceRef[] => sourcesOf(request);

const demandsOf = (target: InjectionTarget): readonly SourceDemand[] =>
  refsOf(target).map((ref) => ({ namespace: target.metadata?.namespace, ref }));
