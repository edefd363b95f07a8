/** The cloud's API. */

export interface CloudMachine {
  readonly id: string;
  readonly name: string;
  readonly size: string;
  readonly state: 'starting' | 'running';
  readonly address: string;
}

export function connectCloud(signal: AbortSignal, url = process.env.CLOUD_URL ?? 'http://127.0.0.1:8090') {
  /** Undefined: the cloud has no such machine. @throws Error if it answers anything else */
  const call = async (
    method: string,
    path: string,
    body?: object,
    headers?: Record<string, string>,
  ): Promise<CloudMachine | undefined> => {
    const sent = body === undefined ? null : JSON.stringify(body);
    const response = await fetch(`${url}/machines${path}`, {
      method,
      signal,
      headers: { ...headers },
      body: sent,
    });
    if ([204, 404, 410].includes(response.status)) return undefined;
    if (!response.ok) throw new Error(`the cloud answers ${response.status} to ${method} /machines${path}`);
    return (await response.json()) as CloudMachine;
  };
  return {
    get: (id: string) => call('GET', `/${id}`),
    /** Creates at most one machine for a key, however often it is called. Undefined: that machine is gone again. */
    create: (key: string, machine: Pick<CloudMachine, 'name' | 'size'>) =>
      call('POST', '', machine, { 'idempotency-key': key }),
    resize: (id: string, size: string) => call('PATCH', `/${id}`, { size }),
    remove: (id: string) => call('DELETE', `/${id}`),
  };
}
