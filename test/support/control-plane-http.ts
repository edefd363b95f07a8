/** Plain HTTPS requests to an API server, for use before a client exists. */
import { request } from 'node:https';

export interface KubeVersion {
  readonly major: number;
  readonly minor: number;
  readonly gitVersion: string;
}

export async function readVersion(server: string, ca: string, token: string): Promise<KubeVersion> {
  const { body } = await get(`${server}/version`, ca, token);
  const version: unknown = JSON.parse(body);
  if (
    typeof version !== 'object' ||
    version === null ||
    !('minor' in version && 'major' in version && 'gitVersion' in version)
  ) {
    throw new Error(`not a version: ${body}`);
  }
  const number = (value: unknown) => Number.parseInt(String(value), 10);
  return {
    major: number(version.major),
    minor: number(version.minor),
    gitVersion: String(version.gitVersion),
  };
}

export function get(
  url: string,
  ca: string,
  token?: string,
): Promise<{ readonly status: number; readonly body: string }> {
  return new Promise((resolve, reject) => {
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    // The self-signed certificates name the machine, not always the address that we dial.
    const call = request(
      url,
      { ca, headers, agent: false, timeout: 5_000, checkServerIdentity: () => undefined },
      (response) => {
        let body = '';
        response.setEncoding('utf8');
        response.on('data', (chunk: string) => (body += chunk));
        response.on('end', () => {
          resolve({ status: response.statusCode ?? 0, body });
        });
      },
    );
    call.on('timeout', () => call.destroy(new Error('timed out')));
    call.on('error', reject);
    call.end();
  });
}
