/** The storage service's API. */

export interface StoredBucket {
  readonly id: string;
  readonly region: string;
  /** The namespace and name of the object that it belongs to. */
  readonly tag: string;
  readonly objects: number;
}

export function connectService(
  signal: AbortSignal,
  url = process.env.BUCKETS_URL ?? 'http://127.0.0.1:8091',
) {
  const call = async (method: string, path: string, right: readonly number[], init: RequestInit = {}) => {
    const response = await fetch(`${url}/buckets${path}`, { ...init, method, signal });
    if (right.includes(response.status)) return response;
    throw new Error(`the storage service answers ${response.status} to ${method} /buckets${path}`);
  };
  return {
    tagged: async (tag: string): Promise<readonly StoredBucket[]> => {
      const response = await call('GET', `?tag=${encodeURIComponent(tag)}`, [200]);
      return (await response.json()) as readonly StoredBucket[];
    },
    /** Creates at most one bucket for a key, however often it is called. Undefined: that bucket is gone again. */
    create: async (
      key: string,
      bucket: Pick<StoredBucket, 'region' | 'tag'>,
    ): Promise<StoredBucket | undefined> => {
      const headers = { 'idempotency-key': key };
      const response = await call('POST', '', [200, 410], { headers, body: JSON.stringify(bucket) });
      return response.status === 410 ? undefined : ((await response.json()) as StoredBucket);
    },
    /** False: it is not empty. */
    remove: async (id: string): Promise<boolean> =>
      (await call('DELETE', `/${encodeURIComponent(id)}`, [204, 404, 409])).status !== 409,
  };
}
