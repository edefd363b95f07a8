import java.io.*;
import java.net.*;
import java.nio.file.*;
import java.security.*;
import java.security.cert.*;
import java.security.cert.Certificate;
import java.security.spec.*;
import java.util.*;
import javax.net.ssl.*;

/** One side of TLS handshakes. It loads its certificate or its bundle once, when it starts. */
class Peer {
  static final byte[] RESPONSE = "HTTP/1.1 204 No Content\r\n\r\n".getBytes();

  public static void main(String[] args) throws Exception {
    if (args[0].equals("serve")) serve(args[1], args[2], args[3], Integer.parseInt(args[4]));
    else if (args[0].equals("judge")) judge(args);
    else connect(args[1], args[2]);
  }

  static Collection<? extends Certificate> read(String path) throws Exception {
    try (InputStream in = new FileInputStream(path)) {
      return CertificateFactory.getInstance("X.509").generateCertificates(in);
    }
  }

  static KeyStore emptyStore() throws Exception {
    KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
    store.load(null, null);
    return store;
  }

  static void serve(String cert, String key, String host, int port) throws Exception {
    String base64 = Files.readString(Path.of(key)).replaceAll("-----[A-Z ]+-----|\\s", "");
    PrivateKey privateKey = KeyFactory.getInstance("EC")
        .generatePrivate(new PKCS8EncodedKeySpec(Base64.getDecoder().decode(base64)));
    KeyStore store = emptyStore();
    store.setKeyEntry("own", privateKey, new char[0], read(cert).toArray(new Certificate[0]));
    KeyManagerFactory factory = KeyManagerFactory.getInstance("PKIX");
    factory.init(store, new char[0]);
    SSLContext context = SSLContext.getInstance("TLS");
    context.init(factory.getKeyManagers(), null, null);
    ServerSocket listener =
        context.getServerSocketFactory().createServerSocket(port, 128, InetAddress.getByName(host));
    while (true) {
      Socket socket = listener.accept();
      Thread thread = new Thread(() -> answer(socket));
      thread.setDaemon(true);
      thread.start();
    }
  }

  static void answer(Socket accepted) {
    try (Socket socket = accepted) {
      socket.setSoTimeout(10_000);
      while (!head(socket.getInputStream()).isEmpty()) socket.getOutputStream().write(RESPONSE);
    } catch (IOException error) {
      // Only the client's verdict counts.
    }
  }

  /** The head of the next message; what has arrived if the other side closes before. */
  static String head(InputStream in) throws IOException {
    StringBuilder received = new StringBuilder();
    byte[] part = new byte[4096];
    while (received.indexOf("\r\n\r\n") < 0) {
      int count = in.read(part);
      if (count < 0) break;
      received.append(new String(part, 0, count, "ISO-8859-1"));
    }
    return received.toString();
  }

  static TrustManager[] trusting(String bundle) throws Exception {
    KeyStore store = emptyStore();
    for (Certificate root : read(bundle)) store.setCertificateEntry("root" + store.size(), root);
    TrustManagerFactory factory = TrustManagerFactory.getInstance("PKIX");
    factory.init(store);
    return factory.getTrustManagers();
  }

  /** Prints, for each bundle and port after the name, whether a client with this bundle trusts the server. */
  static void judge(String[] args) throws Exception {
    for (int i = 2; i + 1 < args.length; i += 2) {
      String said = exchange(trusting(args[i]), args[1], "127.0.0.1", Integer.parseInt(args[i + 1]), 0);
      boolean isVerdict = said.startsWith("ok") || said.contains("SSLHandshakeException");
      if (!isVerdict) throw new IOException(said);
      System.out.println(said.startsWith("ok") ? "ok" : "refused");
    }
  }

  /**
   * Reads lines with an address, a port and a number of requests, which it sends over one connection. Answers each with
   * `ok` and the number of responses, or with the reason of the failure.
   */
  static void connect(String bundle, String name) throws Exception {
    TrustManager[] trust = trusting(bundle);
    System.out.println("ready");
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line; (line = lines.readLine()) != null; ) {
      String[] to = line.split(" ");
      System.out.println(exchange(trust, name, to[0], Integer.parseInt(to[1]), Integer.parseInt(to[2])));
    }
  }

  static String exchange(TrustManager[] trust, String name, String host, int port, int count)
      throws Exception {
    SSLContext context = SSLContext.getInstance("TLS"); // a new one has no session to resume
    context.init(null, trust, null);
    try (Socket plain = new Socket()) {
      plain.connect(new InetSocketAddress(host, port), 20_000);
      plain.setSoTimeout(20_000);
      SSLSocket socket = (SSLSocket) context.getSocketFactory().createSocket(plain, name, port, true);
      SSLParameters parameters = socket.getSSLParameters();
      parameters.setEndpointIdentificationAlgorithm("HTTPS");
      socket.setSSLParameters(parameters);
      socket.startHandshake();
      byte[] request = ("GET / HTTP/1.1\r\nhost: " + name + "\r\n\r\n").getBytes();
      int responses = 0;
      while (responses < count) {
        socket.getOutputStream().write(request);
        String response = head(socket.getInputStream());
        if (!response.matches("(?s)HTTP/1\\.[01] 2.*")) throw new IOException("no response, but " + response);
        responses++;
        if (response.startsWith("HTTP/1.0")) break; // the server closes the connection
      }
      return "ok " + responses;
    } catch (IOException error) {
      return error.toString().replace('\n', ' ');
    }
  }
}
