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
  static final byte[] RESPONSE = "HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n".getBytes();

  public static void main(String[] args) throws Exception {
    if (args[0].equals("serve")) serve(args[1], args[2], args[3], Integer.parseInt(args[4]));
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
      if (socket.getInputStream().read(new byte[4096]) > 0) socket.getOutputStream().write(RESPONSE);
    } catch (IOException error) {
      // Only the client's verdict counts.
    }
  }

  /** Reads lines with an address and a port, and answers each with `ok` or the reason of the failure. */
  static void connect(String bundle, String name) throws Exception {
    KeyStore store = emptyStore();
    for (Certificate root : read(bundle)) store.setCertificateEntry("root" + store.size(), root);
    TrustManagerFactory factory = TrustManagerFactory.getInstance("PKIX");
    factory.init(store);
    TrustManager[] trust = factory.getTrustManagers();
    System.out.println("ready");
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line; (line = lines.readLine()) != null; ) {
      String[] to = line.split(" ");
      System.out.println(handshake(trust, name, to[0], Integer.parseInt(to[1])));
    }
  }

  static String handshake(TrustManager[] trust, String name, String host, int port) throws Exception {
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
      return "ok";
    } catch (IOException error) {
      return error.toString().replace('\n', ' ');
    }
  }
}
