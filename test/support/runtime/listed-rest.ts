/** A REST client for watches: it lists what the test provides, and no watch reports a change. */
import type { KubeObject } from '../../../src/json/kube-object.ts';
import type { Rest } from '../../../src/kube/rest.ts';

type Items = readonly KubeObject[];

export function createListedRest() {
  /** By path. A list that is still a promise has not arrived. */
  const lists = new Map<string, Items | Promise<Items>>();
  const listed: string[] = [];
  const rest: Rest = {
    request: async <T>({ path }: { readonly path: string }) => {
      listed.push(path);
      const items = await (lists.get(path) ?? []);
      return { metadata: { resourceVersion: '1' }, items } as T; // the type that the caller expects
    },
    stream: async function* ({ signal }) {
      await new Promise((resolve) => {
        signal?.addEventListener('abort', resolve);
      });
      yield* [];
    },
    impersonate: () => rest,
  };
  return { rest, lists, listed };
}
