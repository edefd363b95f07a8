import type { ConversionSubject, Converter, ConverterLookup } from '../../admission/conversion/converter.ts';
import { type Definition, readDefinition } from '../../admission/conversion/definition.ts';
import { installationOf, type OwnService } from '../../admission/conversion/installation.ts';
import type { ConversionPolicy, ConversionPolicyStatus } from '../../api/conversion-policy.ts';
import type { ControllersConfig } from '../../config/config.ts';
import { type GroupResource, groupResourceName, keyOf, type KubeObject } from '../../json/kube-object.ts';
import { pick } from '../../json/json.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Store } from '../../kube/store.ts';
import { customResourceDefinitions } from '../../kube/well-known.ts';
import type { ConversionServing } from '../../server/conversion-routes.ts';
import { type HealthCheck, untilPassed } from '../../server/operations-server.ts';
import type { Context } from '../context.ts';
import { type Reconcile, startController } from '../controller.ts';
import { createListeners } from '../listeners.ts';
import { conditionsOf, createStatusReconciler } from '../policies/compiled-state.ts';
import { CONVERSION_POLICIES } from '../resources.ts';
import { keepOnly, watch, type WatchContext, type Watching } from '../watch.ts';
import {
  type DefinitionRead,
  createConversionsReconciler,
  targetOf,
  type ConversionState,
  type ConversionRegistry,
  createConversionRegistry,
} from './conversions-reconciler.ts';

export interface Conversions {
  readonly serving: Pick<ConversionServing, 'lookUp'>;
  readonly checks: { readonly conversions?: HealthCheck };
  readonly lead: (context: Context<ControllersConfig>, signal: AbortSignal) => Promise<void>;
}

/** @throws Error when two handlers convert the same objects */
export function startConversions(
  context: Context,
  handlers: readonly Converter[],
  signal: AbortSignal,
): Conversions {
  const { config, log } = context;
  const now = () => new Date();
  if (config.without.includes('conversions')) return withoutConversions(handlers);
  const changes = createListeners<[name: string]>();
  const watched = { resource: CONVERSION_POLICIES, onChange: changes.tell };
  const policies = watch<ConversionPolicy>(context, watched, signal);
  const definitions = createDefinitions(
    context,
    (target) => {
      const definition = groupResourceName(target);
      for (const policy of policies.store.list())
        if (groupResourceName(targetOf(policy)) === definition) controller.add(keyOf(policy));
    },
    signal,
  );
  const notCompiled = () =>
    policies.store.list().filter((policy) => registry.get(keyOf(policy)) === undefined);
  const registry = createConversionRegistry(
    handlers,
    (target) => definitions.get(target)?.kind,
    (group) => {
      if (!policies.hasSynced()) return undefined;
      const waitedFor = notCompiled().filter(({ spec }) => spec.target.apiGroup === group);
      return waitedFor.map((policy) => `ConversionPolicy ${keyOf(policy)}`);
    },
  );
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
        now,
        log,
      }),
    },
    signal,
  );
  changes.add((name) => {
    controller.add(name);
    for (const policy of policies.store.list()) controller.add(keyOf(policy));
    definitions.keepOnly([...policies.store.list().map(targetOf), ...handlers.map(({ target }) => target)]);
  });
  // The registry needs the kinds of their objects before the first conversion.
  for (const { target } of handlers) definitions.read(target, signal).catch(() => undefined);

  return {
    serving: { lookUp: registry.lookUp },
    checks: {
      conversions: untilPassed(() => {
        if (!policies.hasSynced())
          return 'ConversionPolicies have not been listed yet: are the CRDs installed?';
        const names = notCompiled().map(keyOf);
        return names.length === 0 ? undefined : `not compiled yet: ${names.join(', ')}`;
      }),
    },
    lead: async (leading, leadership) => {
      const { namespace, service: name, servicePort } = leading.config;
      const service = { namespace, name, port: servicePort };
      const { client } = leading;
      const reconcile = createConversionStatusReconciler(client, policies.store, registry, service, now);
      const onKey = [registry.subscribe];
      const options = { name: 'conversion-status', objects: policies, onKey, reconcile };
      await startController(leading, options, leadership).stopped;
    },
  };
}

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

/** Watches each CustomResourceDefinition separately: a cluster may have thousands of others. */
function createDefinitions(
  context: WatchContext,
  onChange: (target: GroupResource) => void,
  signal: AbortSignal,
) {
  const watches = new Map<string, Watching<DefinitionObject>>();

  const start = (target: GroupResource, name: string): Watching<DefinitionObject> => {
    const options = { resource: customResourceDefinitions, name, transform: toDefinitionObject };
    const watching = watch<DefinitionObject>(context, options, signal);
    watching.onChange(() => onChange(target));
    return watching;
  };

  return {
    read: async (target: GroupResource, waiting: AbortSignal): Promise<DefinitionRead> => {
      const name = groupResourceName(target);
      const watching = watches.get(name) ?? start(target, name);
      watches.set(name, watching);
      if (await watching.listedInTime(waiting))
        return { kind: 'read', definition: watching.store.get(name)?.definition };
      context.log.warn({ crd: name }, 'could not read a CustomResourceDefinition in time');
      return { kind: 'unread' };
    },
    get: (target: GroupResource): Definition | undefined => {
      const name = groupResourceName(target);
      return watches.get(name)?.store.get(name)?.definition;
    },
    keepOnly: (needed: readonly GroupResource[]): void => {
      const names = new Set(needed.map(groupResourceName));
      keepOnly(watches, (name) => names.has(name));
    },
  };
}

function toDefinitionObject(crd: DefinitionObject): DefinitionObject {
  return { metadata: pick(crd.metadata ?? {}, 'name', 'resourceVersion'), definition: readDefinition(crd) };
}
