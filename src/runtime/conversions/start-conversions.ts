/** Starts conversion on every replica, separate from admission, and the status controller on the leader. */
import type { Converter, ConverterLookup, ConversionSubject } from '../../admission/conversion/converter.ts';
import { keyOf, groupResourceName, type KubeObject, type GroupResource } from '../../json/kube-object.ts';
import type { ConversionPolicy, ConversionPolicyStatus } from '../../api/conversion-policy.ts';
import {
  createConversionRegistry,
  type ConversionRegistry,
  type ConversionState,
} from './conversion-registry.ts';
import { createConversionsReconciler, targetOf, type DefinitionRead } from './conversions.ts';
import { createListeners } from '../listeners.ts';
import type { ConversionServing } from '../../server/conversion-routes.ts';
import { untilPassed, type HealthCheck } from '../../server/health.ts';
import type { ControllersConfig } from '../../config/config.ts';
import type { Context } from '../context.ts';
import { startController, type Reconcile } from '../controller.ts';
import { CONVERSION_POLICIES } from '../resources.ts';
import { watch, type Watched, type WatchContext, type Watching } from '../watch.ts';
import { installationOf, type OwnService } from '../../admission/conversion/installation.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Store } from '../../kube/store.ts';
import { conditionsOf, createStatusReconciler } from '../policies/compiled-state.ts';
import { readDefinition, type Definition } from '../../admission/conversion/definition.ts';
import { customResourceDefinitions } from '../../kube/well-known.ts';
import { pick } from '../../json/objects.ts';

export interface Conversions {
  /** For the webhook server. */
  readonly serving: Pick<ConversionServing, 'lookUp'>;
  readonly checks: { readonly conversions?: HealthCheck };
  /** Runs the status controller. Resolves when its last reconcile has ended after the signal aborted. */
  readonly lead: (context: Context<ControllersConfig>, signal: AbortSignal) => Promise<void>;
}

/**
 * @param handlers converters in TypeScript
 * @throws Error when two handlers convert the same objects
 */
export function startConversions(
  context: Context,
  handlers: readonly Converter[],
  signal: AbortSignal,
): Conversions {
  const { config, log } = context;
  if (config.without.includes('conversions')) return withoutConversions(handlers);
  const changes = createListeners<[name: string]>();
  const policies = watch<ConversionPolicy>(
    context,
    { resource: CONVERSION_POLICIES, onChange: changes.tell },
    signal,
  );
  const definitions = createDefinitions(
    context,
    (target) => {
      for (const name of policiesFor(policies, groupResourceName(target))) controller.add(name);
    },
    signal,
  );
  const notCompiled = (group: string) =>
    policies.hasSynced()
      ? policies.store
          .list()
          .filter(
            ({ spec, metadata }) =>
              spec.target.apiGroup === group && registry.get(metadata.name ?? '') === undefined,
          )
          .map((policy) => `ConversionPolicy ${keyOf(policy)}`)
      : undefined;
  const registry = createConversionRegistry(handlers, (target) => definitions.get(target)?.kind, notCompiled);
  const handlerFor = new Map(handlers.map(({ target, name }) => [groupResourceName(target), name]));
  const controller = startController(
    context,
    {
      name: 'conversions',
      concurrency: WORKERS,
      reconcile: createConversionsReconciler({
        policies: policies.store,
        definition: definitions.read,
        handler: (target) => handlerFor.get(groupResourceName(target)),
        registry,
        now: () => new Date(),
        log,
      }),
    },
    signal,
  );
  changes.add((name) => {
    controller.add(name);
    // When two policies name one kind, a change of one affects the other: all are reconciled.
    for (const policy of policies.store.list()) controller.add(keyOf(policy));
    definitions.keepOnly([...policies.store.list().map(targetOf), ...handlers.map(({ target }) => target)]);
  });
  // The registry needs the kinds of their objects before the first conversion.
  for (const { target } of handlers) definitions.read(target, signal).catch(() => undefined);

  return {
    serving: { lookUp: registry.lookUp },
    checks: {
      conversions: untilPassed(() => problemOf(policies, (name) => registry.get(name) !== undefined)),
    },
    lead: async (leading, leadership) => {
      const { namespace, service: name, servicePort } = leading.config;
      const service = { namespace, name, port: servicePort };
      const reconcile = createConversionStatusReconciler(
        leading.client,
        policies.store,
        registry,
        service,
        () => new Date(),
      );
      const status = startController(leading, { name: 'conversion-status', reconcile }, leadership);
      registry.subscribe(status.add, leadership);
      changes.add(status.add, leadership);
      for (const policy of policies.store.list()) status.add(keyOf(policy));
      await status.stopped;
    },
  };
}

/** @throws Error when a handler converts objects: without it, the API server could not read them */
function withoutConversions([handler]: readonly Converter[]): Conversions {
  if (handler !== undefined)
    throw new Error(
      `${handler.name} converts ${groupResourceName(handler.target)}, and --without conversions leaves conversions out: ` +
        'remove one of the two',
    );
  const lookUp = ({ group, kind }: ConversionSubject): ConverterLookup => ({
    kind: 'none',
    message:
      `Gatehouse runs without conversions (--without conversions), so it does not convert kind ${kind} of ${group}: ` +
      'start it with conversions, or set spec.conversion of the CustomResourceDefinition to another webhook or to strategy: None',
  });
  return {
    serving: { lookUp },
    checks: {},
    lead: () => Promise.resolve(),
  };
}

/** A definition that cannot be read must not delay the others. */
const WORKERS = 4;

function policiesFor(policies: Watched<ConversionPolicy>, definition: string): readonly string[] {
  return policies.store
    .list()
    .filter((policy) => groupResourceName(targetOf(policy)) === definition)
    .map(keyOf);
}

function problemOf(
  policies: Watched<ConversionPolicy>,
  isCompiled: (name: string) => boolean,
): string | undefined {
  if (!policies.hasSynced()) return 'ConversionPolicies have not been listed yet: are the CRDs installed?';
  const notCompiled = policies.store
    .list()
    .map(keyOf)
    .filter((name) => !isCompiled(name));
  return notCompiled.length === 0 ? undefined : `not compiled yet: ${notCompiled.join(', ')}`;
}

export function createConversionStatusReconciler(
  client: Pick<KubeClient, 'replaceStatus'>,
  policies: Pick<Store<ConversionPolicy>, 'get'>,
  registry: Pick<ConversionRegistry, 'get'>,
  service: OwnService,
  now: () => Date,
): Reconcile {
  return createStatusReconciler(
    CONVERSION_POLICIES,
    client,
    policies,
    registry,
    (state, { status: before }) => {
      // Keep the status: the replica that wrote it had read the definition, and this replica has not.
      if (state.problem?.reason === 'DefinitionNotRead') return before;
      const verbs = ['converts', 'nothing is converted'] as const;
      const installation = { type: 'Installed', ...installationOf(state.definition, service) };
      return {
        observedGeneration: state.generation,
        conditions: conditionsOf(state, verbs, installation, before?.conditions, now()),
        ...inForceOf(state, before ?? {}),
      };
    },
  );
}

/** The last version in force stays in the status as a fallback, unless another policy converts the kind. */
function inForceOf(
  { inForce, problem }: ConversionState,
  before: ConversionPolicyStatus,
): Pick<ConversionPolicyStatus, 'inForce'> {
  if (inForce !== undefined) return { inForce: { generation: inForce.generation, spec: inForce.spec } };
  if (before.inForce === undefined || problem?.reason === 'Conflict') return {};
  return { inForce: before.inForce };
}

interface DefinitionObject extends KubeObject {
  readonly definition?: Definition | undefined;
}

/**
 * Watches the CustomResourceDefinitions of converted kinds, each separately: a cluster may have thousands of others.
 */
function createDefinitions(
  context: WatchContext,
  onChange: (target: GroupResource) => void,
  signal: AbortSignal,
) {
  const watches = new Map<string, Watching<DefinitionObject>>();

  const start = (target: GroupResource, name: string): Watching<DefinitionObject> => {
    const fieldSelector = `metadata.name=${name}`;
    const options = { resource: customResourceDefinitions, fieldSelector, transform: toDefinitionObject };
    const watching = watch<DefinitionObject>(context, options, signal);
    watching.onChange(() => onChange(target));
    return watching;
  };

  return {
    /** Starts a watch, and waits a limited time for the first answer. */
    read: async (target: GroupResource, waiting: AbortSignal): Promise<DefinitionRead> => {
      const name = groupResourceName(target);
      const watching = watches.get(name) ?? start(target, name);
      watches.set(name, watching);
      if (await watching.listedInTime(waiting))
        return { kind: 'read', definition: watching.store.get(name)?.definition };
      context.log.warn({ crd: name }, 'could not read a CustomResourceDefinition in time');
      return { kind: 'unread' };
    },
    /** The definition in the store. */
    get: (target: GroupResource): Definition | undefined => {
      const name = groupResourceName(target);
      return watches.get(name)?.store.get(name)?.definition;
    },
    /** Stops the watches of all definitions that are not in `needed`. */
    keepOnly: (needed: readonly GroupResource[]): void => {
      const names = new Set(needed.map(groupResourceName));
      for (const [name, { stop }] of watches) {
        if (names.has(name)) continue;
        stop();
        watches.delete(name);
      }
    },
  };
}

/** Keeps only the parts that conversion uses: a definition may have a megabyte. */
function toDefinitionObject(crd: DefinitionObject): DefinitionObject {
  return { metadata: pick(crd.metadata ?? {}, 'name', 'resourceVersion'), definition: readDefinition(crd) };
}
