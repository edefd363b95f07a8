/** The content of targets that are watched by their metadata only. */
import { objectKey } from '../../json/kube-object.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Resource } from '../../kube/object.ts';
import { toTarget, type InjectionTarget, type TargetKind } from '../../pki/injection/target.ts';
import type { Context } from '../context.ts';

interface TargetReader {
  /** As it is now; undefined when it is gone. */
  readonly read: (known: InjectionTarget, signal: AbortSignal) => Promise<InjectionTarget | undefined>;
  /** With its content if this version has been read, and as if it were empty otherwise. */
  readonly withContent: (known: InjectionTarget) => InjectionTarget;
  readonly forget: (key: string) => void;
}

interface ReaderOptions {
  readonly kind: TargetKind;
  readonly resource: Resource;
  /** A version was read that had not been read before: whoever hears of it may have us look again. */
  readonly onNews: () => void;
}

export function createTargetReader(
  { client, config }: Context & { readonly client: KubeClient },
  { kind, resource, onNews }: ReaderOptions,
): TargetReader {
  const last = new Map<string, InjectionTarget>();
  const versionOf = (target: InjectionTarget | undefined) => target?.metadata?.resourceVersion;
  return {
    read: async ({ metadata = {} }, signal) => {
      const key = objectKey(metadata);
      const { namespace, name = '' } = metadata;
      const live = await client.get(resource, { namespace, name }, { signal });
      if (live === undefined) return undefined;
      const target = toTarget(kind, live, config.compat);
      const isNews = versionOf(target) !== versionOf(last.get(key));
      last.set(key, target);
      if (isNews) onNews();
      return target;
    },
    withContent: (known) => {
      const read = last.get(objectKey(known.metadata ?? {}));
      return read !== undefined && versionOf(read) === versionOf(known) ? read : known;
    },
    forget: (key) => void last.delete(key),
  };
}
