/** The objects of one kind that may carry a CA bundle, as a leader sees them. */
import { objectKey } from '../../json/kube-object.ts';
import type { Change } from '../../kube/watch/change.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Resource } from '../../kube/object.ts';
import { toTarget, type InjectionTarget, type TargetKind } from '../../pki/injection/target.ts';
import type { Context } from '../context.ts';
import { watch } from '../watch.ts';
import { createTargetReader } from './target-reader.ts';

interface TargetStoreOptions {
  readonly kind: TargetKind;
  readonly resource: Resource;
  /** The object of this kind that Gatehouse writes as a whole: it matters, whether it asks or not. */
  readonly own: string;
  /** These, which matter here, have changed: as they are now and as they were. */
  readonly onTarget: (key: string, targets: readonly InjectionTarget[]) => void;
  /** There is more to know about those that have not changed. */
  readonly onNews: () => void;
}

interface TargetStore {
  /** As it is now. */
  readonly read: (
    key: string,
    signal: AbortSignal,
  ) => InjectionTarget | undefined | Promise<InjectionTarget | undefined>;
  /** Those that matter here, as last seen. */
  readonly list: () => readonly InjectionTarget[];
  /** Those that ask for a bundle, or hold fields of ours. */
  readonly asking: () => readonly InjectionTarget[];
  readonly hasSynced: () => boolean;
}

export function watchTargets(
  context: Context & { readonly client: KubeClient },
  { kind, resource, own, onTarget, onNews }: TargetStoreOptions,
  signal: AbortSignal,
): TargetStore {
  // Of ConfigMaps only metadata is watched, and the few that matter here are read.
  const metadataOnly = kind.kind === 'ConfigMap';
  const reader = createTargetReader(context, { kind, resource, onNews });
  const concerns = (target: InjectionTarget): boolean => asks(target) || keyOf(target) === own;
  const { store, hasSynced, whenSynced } = watch<InjectionTarget>(
    context,
    {
      resource,
      metadataOnly,
      transform: (raw) => toTarget(kind, raw, context.config.compat),
      onChange: (key, change) => {
        if (change.kind === 'deleted') reader.forget(key);
        const concerned = versions(change).filter(concerns);
        if (concerned.length > 0) onTarget(key, concerned);
      },
    },
    signal,
  );
  whenSynced(signal).then(onNews, () => undefined);

  return {
    read: (key, waiting) => {
      const known = store.get(key);
      return known === undefined || !metadataOnly || !concerns(known) ? known : reader.read(known, waiting);
    },
    list: () =>
      store
        .list()
        .filter(concerns)
        .map(metadataOnly ? reader.withContent : same),
    asking: () => store.list().filter(asks),
    hasSynced,
  };
}

const asks = ({ request, own }: InjectionTarget): boolean => request.kind !== 'none' || own.length > 0;
const keyOf = ({ metadata }: InjectionTarget): string => objectKey(metadata ?? {});
const same = (target: InjectionTarget): InjectionTarget => target;

const versions = (change: Change<InjectionTarget>): readonly InjectionTarget[] =>
  change.kind === 'changed' ? [change.object, change.previous] : [change.object];
