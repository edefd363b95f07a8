/** The injector of one kind: what it watches, and how it writes. */
import { objectKey } from '../../../api/meta.ts';
import { createInjector, type InjectorDeps } from '../../../controllers/injector.ts';
import type { TargetView } from '../../../controllers/injection-evidence.ts';
import type { Change } from '../../../kube/change.ts';
import { guardedJsonPatch, type KubeClient } from '../../../kube/client.ts';
import type { NamedRef, Resource } from '../../../kube/object.ts';
import { INJECTION_MANAGER } from '../../../pki/annotations.ts';
import { toTarget, type InjectionTarget, type TargetKind } from '../../../pki/injection-target.ts';
import type { Context } from '../context.ts';
import { startController } from '../controller.ts';
import { watch } from '../watch.ts';
import { createTargetReader } from './target-reader.ts';

export interface InjectorOptions extends Pick<InjectorDeps, 'bundle' | 'report' | 'record'> {
  readonly kind: TargetKind;
  readonly resource: Resource;
  /** The object of this kind that Gatehouse writes as a whole: watched, and never written here. */
  readonly own: string;
  /** These, which matter here, have changed: as they are now and as they were. None: there is more to know about the rest. */
  readonly onChange: (targets: readonly InjectionTarget[]) => void;
}

export interface RunningInjector {
  readonly view: TargetView;
  readonly hasSynced: () => boolean;
  /** Looks again at the targets that this holds for. */
  readonly resync: (filter: (target: InjectionTarget) => boolean) => void;
  readonly stopped: Promise<unknown>;
}

/** ConfigMaps that ask may stand in each of a thousand namespaces. */
const WORKERS = 4;

export function startInjector(
  context: Context & { readonly client: KubeClient },
  options: InjectorOptions,
  signal: AbortSignal,
): RunningInjector {
  const { kind, resource, own, onChange, ...deps } = options;
  const news = () => {
    onChange([]);
  };
  // Of ConfigMaps only metadata is watched, and the few that matter here are read.
  const metadataOnly = kind.kind === 'ConfigMap';
  const reader = createTargetReader(context, { kind, resource, onNews: news });
  const concerns = (target: InjectionTarget): boolean => asks(target) || keyOf(target) === own;

  const controller = startController(
    context,
    {
      name: `injector-${resource.resource}`,
      concurrency: WORKERS,
      reconcile: createInjector({
        ...deps,
        ...writesOf(context.client, kind, resource),
        kind,
        target: (key, waiting) => {
          const known = watched.store.get(key);
          return known === undefined || !metadataOnly || !concerns(known)
            ? known
            : reader.read(known, waiting);
        },
        now: () => new Date(),
        log: context.log,
      }),
    },
    signal,
  );
  const watched = watch<InjectionTarget>(
    context,
    {
      resource,
      metadataOnly,
      transform: (raw) => toTarget(kind, raw, context.config.compat),
      onChange: (key, change) => {
        if (change.kind === 'deleted') reader.forget(key);
        const concerned = versions(change).filter(concerns);
        if (concerned.length === 0) return;
        controller.add(key);
        onChange(concerned);
      },
    },
    signal,
  );
  watched.whenSynced(signal).then(news, () => undefined);

  return {
    view: {
      kind,
      targets: () =>
        watched.store
          .list()
          .filter(concerns)
          .map(metadataOnly ? reader.withContent : same),
      isOwn: (key) => key === own,
    },
    hasSynced: watched.hasSynced,
    resync: (filter) => {
      for (const known of watched.store.list())
        if (asks(known) && filter(known)) controller.add(keyOf(known));
    },
    stopped: controller.stopped,
  };
}

const asks = ({ request, own }: InjectionTarget): boolean => request.kind !== 'none' || own.length > 0;
const keyOf = ({ metadata }: InjectionTarget): string => objectKey(metadata ?? {});
const same = (target: InjectionTarget): InjectionTarget => target;

const versions = (change: Change<InjectionTarget>): readonly InjectionTarget[] =>
  change.kind === 'changed' ? [change.object, change.previous] : [change.object];

function refOf({ metadata }: InjectionTarget): NamedRef {
  return { namespace: metadata?.namespace, name: metadata?.name ?? '' };
}

function writesOf(
  client: KubeClient,
  kind: TargetKind,
  resource: Resource,
): Pick<InjectorDeps, 'inject' | 'handBack'> {
  const fieldManager = INJECTION_MANAGER;
  return {
    inject: async (target, configuration, signal) => {
      const { name, namespace, resourceVersion } = target.metadata ?? {};
      const version = resourceVersion === undefined ? {} : { resourceVersion };
      // The API server of APIServices cannot apply in old releases, and a merge patch of one field does the same.
      if (kind.kind === 'APIService') {
        const patch = { metadata: version, ...configuration };
        await client.patchMerge(resource, refOf(target), patch, { fieldManager, signal });
        return;
      }
      const metadata = {
        ...(name === undefined ? {} : { name }),
        ...(namespace === undefined ? {} : { namespace }),
        ...version,
      };
      await client.apply(resource, { metadata, ...configuration }, { fieldManager, force: true, signal });
    },
    handBack: (target, operations, signal) =>
      client.patchJson(resource, refOf(target), guardedJsonPatch(target, operations), {
        fieldManager,
        signal,
      }),
  };
}
