import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { Socket } from 'node:net';
import type { buildConnector } from 'undici';

/**
 * A connector that opens a tunnel through an HTTP proxy (RFC 9110 §9.3.6). For https, `connect` adds TLS in the tunnel.
 * @param proxyUrl `proxy-url` of the kubeconfig; its user and password are sent as Basic credentials
 */
export function throughProxy(
  connect: buildConnector.connector,
  proxyUrl: string,
  timeoutMs: number,
): buildConnector.connector {
  const proxy = new URL(proxyUrl);
  if (proxy.protocol !== 'http:' && proxy.protocol !== 'https:')
    throw new Error(
      `proxy-url ${proxy.protocol}//${proxy.host} is not supported: use an http or https proxy`,
    );
  return (options, callback) => {
    const port = options.port === '' ? (options.protocol === 'https:' ? '443' : '80') : options.port;
    const authority = `${options.hostname}:${port}`;
    tunnel(proxy, authority, timeoutMs).then(
      (httpSocket) => {
        if (options.protocol === 'https:') connect({ ...options, httpSocket }, callback);
        else callback(null, httpSocket);
      },
      (cause: unknown) => {
        callback(new Error(`the proxy ${proxy.host} opened no tunnel to ${authority}`, { cause }), null);
      },
    );
  };
}

function tunnel(proxy: URL, authority: string, timeoutMs: number): Promise<Socket> {
  const user = [proxy.username, proxy.password].map(decodeURIComponent).join(':');
  const request = proxy.protocol === 'https:' ? httpsRequest : httpRequest;
  return new Promise((resolve, reject) => {
    const attempt = request({
      method: 'CONNECT',
      host: proxy.hostname.replace(/^\[|\]$/g, ''),
      port: proxy.port === '' ? (proxy.protocol === 'https:' ? 443 : 80) : proxy.port,
      path: authority,
      agent: false,
      signal: AbortSignal.timeout(timeoutMs),
      headers: {
        host: authority,
        ...(user === ':' ? {} : { 'proxy-authorization': `Basic ${Buffer.from(user).toString('base64')}` }),
      },
    });
    attempt.once('connect', (response, socket) => {
      if (response.statusCode === 200) {
        resolve(socket);
        return;
      }
      socket.destroy();
      reject(new Error(`it answered ${String(response.statusCode)}`));
    });
    attempt.once('error', reject);
    attempt.end();
  });
}
