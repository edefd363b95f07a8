/** Plain HTTPS requests to an API server, for use before a client exists. */
import { request } from 'node:https';
import { text } from 'node:stream/consumers';

export type KubeVersion = Awaited<ReturnType<typeof readVersion>>;

export async function readVersion(server: string, ca: string, token: string) {
  const { body } = await get(`${server}/version`, ca, token);
  const { major, minor, gitVersion } = JSON.parse(body) as Readonly<
    Record<'major' | 'minor' | 'gitVersion', string>
  >;
  return { major: Number.parseInt(major, 10), minor: Number.parseInt(minor, 10), gitVersion };
}

export function get(
  url: string,
  ca: string,
  token?: string,
): Promise<{ readonly status: number; readonly body: string }> {
  return new Promise((resolve, reject) => {
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    // The self-signed certificates name the machine, not always the address that we dial.
    const options = { ca, headers, agent: false, timeout: 5_000, checkServerIdentity: () => undefined };
    const call = request(url, options, (response) => {
      text(response).then((body) => resolve({ status: response.statusCode ?? 0, body }), reject);
    });
    call.on('timeout', () => call.destroy(new Error('timed out')));
    call.on('error', reject);
    call.end();
  });
}
